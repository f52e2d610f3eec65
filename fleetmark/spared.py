"""Pandas kept out of processes that do not use it.

Where pandas is installed (Great Expectations brings it), DuckDB imports it at the first query that has a
parameter: two seconds and 70 MB in every command and worker, for nothing. Only a process of our own may do
this, at its start; `import fleetmark` in somebody's notebook leaves his pandas alone.
"""

from __future__ import annotations

import sys


def spare_pandas() -> None:
    """Make `import pandas` fail at once in this process, as if it were not installed."""
    sys.modules.setdefault("pandas", None)  # type: ignore[arg-type]  # documented: None ends the import


def allow_pandas() -> None:
    """Take that back, for the one command that needs it."""
    if sys.modules.get("pandas", sys) is None:
        del sys.modules["pandas"]
