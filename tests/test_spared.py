"""Pandas kept out of a process: as if it were not installed, for PyArrow's compiled imports too."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

ASKED = """
from fleetmark.spared import spare_pandas, allow_pandas
spare_pandas()
import sys, duckdb, pyarrow as pa
from fleetmark.query.answer import values
{first}
print(values(duckdb.connect().execute("SELECT TIMESTAMPTZ '2026-05-01T00:00:00Z' AS at").to_arrow_table()["at"]))
print(pa.scalar(1), duckdb.execute("SELECT ?", [2]).fetchall(), "pandas" in sys.modules)
"""


@pytest.mark.parametrize(
    "first", ["", "duckdb.execute('SELECT ?', [2]).fetchall()", "pa.scalar(1)"]
)
def test_nothing_asks_for_pandas(first: str) -> None:
    """Whichever library looks for pandas first in a new process, values come out."""
    answer = _run(ASKED.format(first=first))
    assert answer.splitlines() == ["['2026-05-01T00:00:00Z']", "1 [(2,)] False"]


@pytest.mark.skipif(
    find_spec("great_expectations") is None, reason="fleetmark[contracts] is not installed"
)
def test_pandas_comes_back_where_it_is_needed() -> None:
    answer = _run(
        ASKED.format(first="") + "allow_pandas()\nimport pandas\n"
        "print(duckdb.sql('SELECT 3 AS a').df().a.tolist(), pa.table({'a': [4]}).to_pandas().a.tolist())"
    )
    assert answer.splitlines()[-1] == "[3] [4]"


def _run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
