"""docs/sources.md names every source, so that nobody has to guess what a parser was tested on."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

from fleetmark.catalog import load_catalog

PAGE = Path(__file__).parent.parent / "docs" / "sources.md"


def test_every_source_has_a_row_that_says_real_or_constructed() -> None:
    formats = PAGE.read_text().partition("\n## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \|(.*)$", formats, re.MULTILINE))
    missing = set(load_catalog().sources) - set(rows)
    assert not missing, f"docs/sources.md has no row for {', '.join(sorted(missing))}"
    for name, row in rows.items():
        assert "**real**" in row or "**constructed**" in row, name


def test_the_page_names_every_field_of_train_jsonl() -> None:
    own = import_module("fleetmark.ingest.training.train_jsonl")
    section = PAGE.read_text().partition("`train_jsonl`\n")[2].partition("\n## ")[0]
    missing = {name for name in own.VALUES if f"`{name}`" not in section}
    assert not missing, f"docs/sources.md, train_jsonl: {', '.join(sorted(missing))}"
