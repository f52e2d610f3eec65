"""Pictures of the dashboards: their JSON drawn by Grafana's own UI packages, in headless Chromium.

No Grafana server is needed, and none is imitated: `renderer/` turns answers of a running API into
data frames as the Infinity plugin does and hands them to the panels of `@grafana/ui`. It is built
once with `npm ci --ignore-scripts --legacy-peer-deps && npm run build` in that folder. Variables stand
at all values; links, incidents and alert rules are not drawn.
"""

from __future__ import annotations

import base64
import json
import mimetypes
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from fleetmark.errors import SettingsError

FOLDER = Path(__file__).parent
BUILT = FOLDER / "renderer" / "dist"
WIDTH_PX = 1280
# Of WebP: text stays sharp, and a picture weighs a third of its PNG.
QUALITY = 85
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")  # fmt: skip
# The page and the JSON are answered from files under the API's own address: one origin, no server.
PREFIX = "/_pictures/"


@dataclass(frozen=True, slots=True)
class Range:
    """The time that dashboards are drawn for."""

    start: datetime
    end: datetime

    @property
    def query(self) -> str:
        """As the page is asked."""
        return f"from={self.start.timestamp() * 1000:.0f}&to={self.end.timestamp() * 1000:.0f}"


@contextmanager
def drawn(address: str, name: str, over: Range, theme: str = "light") -> Iterator[Any]:
    """A Playwright page that shows the dashboard `json/NAME.json` with all panels drawn.

    Raises SettingsError where Chromium or the built renderer is missing.
    """
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - for development only

    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise SettingsError("no chromium on the PATH: install it to draw pictures")
    if not (BUILT / "index.html").exists():
        raise SettingsError(
            f"{BUILT} is missing: run `npm ci --ignore-scripts --legacy-peer-deps && npm run build` in {BUILT.parent}"
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        page = browser.new_page(viewport={"width": WIDTH_PX, "height": 900})
        page.route(f"{address}{PREFIX}**", _answer)
        page.goto(f"{address}{PREFIX}index.html?board={name}.json&theme={theme}&{over.query}")
        page.wait_for_selector("#board[data-left='0']", timeout=120_000)
        yield page
        browser.close()


def _answer(route: Any) -> None:  # noqa: ANN401 - Playwright's
    path = route.request.url.split("?")[0].split(PREFIX, 1)[1]
    file = (FOLDER / "json" / path) if path.endswith(".json") else BUILT / path
    if not file.is_file():
        route.fulfill(status=404, body="")
        return
    kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    route.fulfill(status=200, content_type=kind, body=file.read_bytes())


def draw(address: str, folder: Path, over: Range) -> list[Path]:
    """One WebP picture for each dashboard."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for path in sorted((FOLDER / "json").glob("*.json")):
        with drawn(address, path.stem, over) as page:
            bottom = max(
                p["gridPos"]["y"] + p["gridPos"]["h"]
                for p in json.loads(path.read_text(encoding="utf-8"))["panels"]
            )
            page.set_viewport_size({"width": WIDTH_PX, "height": bottom * 38 + 16})
            page.wait_for_timeout(500)
            picture = folder / f"{path.stem}.webp"
            shot = page.context.new_cdp_session(page).send(
                "Page.captureScreenshot", {"format": "webp", "quality": QUALITY}
            )
            picture.write_bytes(base64.b64decode(shot["data"]))
            made.append(picture)
    return made
