"""Pandas kept out of processes that do not use it.

Where pandas is installed (Great Expectations brings it), DuckDB imports it at the first query that has a
parameter: two seconds and 70 MB in every command and worker, for nothing. Only a process of our own may do
this, at its start; `import fleetmark` in somebody's notebook leaves his pandas alone.
"""

from __future__ import annotations

import sys


class _Absent:
    """Finds no pandas, as if it were not installed.

    Not `sys.modules["pandas"] = None`, though that is what Python documents: compiled `import pandas`
    (PyArrow's) takes the None for the module and fails with an AttributeError, once in each process.
    """

    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is kept out of this process", name=fullname)


_ABSENT = _Absent()


def spare_pandas() -> None:
    """Make `import pandas` fail in this process, as if it were not installed; unless it is there already."""
    if _ABSENT not in sys.meta_path:
        sys.meta_path.insert(0, _ABSENT)


def allow_pandas() -> None:
    """Take that back, for the one command that needs it."""
    if _ABSENT in sys.meta_path:
        sys.meta_path.remove(_ABSENT)
