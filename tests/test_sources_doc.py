"""docs/sources.md names every source, so that nobody has to guess what a parser was tested on."""

from __future__ import annotations

import re
from pathlib import Path

from fleetmark.catalog import load_catalog

PAGE = Path(__file__).parent.parent / "docs" / "sources.md"


def test_every_source_has_a_row_that_says_real_or_constructed() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \|(.*)$", PAGE.read_text(), re.MULTILINE))
    missing = set(load_catalog().sources) - set(rows)
    assert not missing, f"docs/sources.md has no row for {', '.join(sorted(missing))}"
    for name, row in rows.items():
        assert "**real**" in row or "**constructed**" in row, name
