"""Generated pages are current; links in the docs lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fleetmark.docs import write_docs

ROOT = Path(__file__).parent.parent
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def test_generated_pages_are_current() -> None:
    assert write_docs(check=True) == [], "run `fleetmark docs`"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if not target.startswith(("http://", "https://", "mailto:")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
