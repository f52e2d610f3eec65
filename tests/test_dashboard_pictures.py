"""The dashboards as Grafana's own panels draw them: every figure and every table says what the API says."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import requests

pictures = import_module("fleetmark.dashboards._pictures")
BOARDS = sorted(p.stem for p in (pictures.FOLDER / "json").glob("*.json"))
OVER = pictures.Range(datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC))

pytestmark = [
    pytest.mark.long,
    pytest.mark.services,
    pytest.mark.skipif(
        not (pictures.BUILT / "index.html").exists(), reason="dashboards/renderer is not built"
    ),
]


@pytest.fixture(scope="module")
def address(fleet: Path) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).with_name("fleetmark")), "serve", "--store", str(fleet), "--port", str(port)]  # fmt: skip
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            requests.get(f"{url}/healthz", timeout=30)
            break
        except requests.RequestException:
            time.sleep(0.1)
    yield url
    process.terminate()
    process.wait()


def rows_of(address: str, target: dict[str, Any]) -> list[dict[str, Any]]:
    sql = target["url_options"]["params"][0]["value"]
    for name, moment in (("__timeFrom", OVER.start), ("__timeTo", OVER.end)):
        sql = sql.replace(f"${{{name}}}", str(int(moment.timestamp() * 1000)))
    sql = re.sub(r"\$\{\w+:sqlstring\}", "'*'", sql)
    answer = requests.get(f"{address}/query", params={"sql": sql}, timeout=30)
    return list(answer.json()["rows"])


def percents(text: str) -> list[float]:
    return [float(found) for found in re.findall(r"(-?[\d.]+)\s*%", text)]


@pytest.mark.parametrize("name", BOARDS)
def test_what_is_drawn_is_what_the_api_says(name: str, address: str) -> None:
    board = json.loads((pictures.FOLDER / "json" / f"{name}.json").read_text())
    with pictures.drawn(address, name, OVER) as page:
        assert page.locator("[data-problem], [data-empty]").all_inner_texts() == []
        for panel in board["panels"]:
            place = page.locator(f"[data-panel='{panel['id']}']")
            rows = rows_of(address, panel["targets"][0])
            assert panel["title"] in place.inner_text()
            if panel["type"] == "stat":
                shown = percents(place.inner_text())
                for column, value in rows[0].items():
                    if column.endswith("_ratio") and value is not None:
                        assert any(abs(p - value * 100) < 0.51 for p in shown), (
                            column,
                            value,
                            shown,
                        )
            elif panel["type"] == "table":
                texts = [c["text"] for c in panel["targets"][0]["columns"] if c["type"] == "string"]
                cells = (
                    place.get_by_role("cell").all_inner_texts()
                    or place.get_by_role("gridcell").all_inner_texts()
                )
                first = next(t for t in texts if rows[0][t] is not None)
                for row in rows[:4]:
                    assert row[first] is None or any(row[first] in cell for cell in cells), (
                        panel["title"],
                        row[first],
                    )
            else:
                assert panel["type"] == "timeseries"
                columns = panel["targets"][0]["columns"]
                numbers = [c["text"] for c in columns if c["type"] == "number"]
                labels = {str(r[c["text"]]) for r in rows for c in columns if c["type"] == "string"}
                legend = place.inner_text()
                assert [one for one in {*labels, *numbers} if one not in legend] == []
                points = sum(row[number] is not None for row in rows for number in numbers)
                assert inked(place) >= points, "at least a pixel for each value"


def inked(place: Any) -> int:
    """Pixels of a graph's canvas in the colours of series: strong ones, or the grey of coverage."""
    return int(
        place.locator("canvas").first.evaluate(
            """canvas => {
              const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
              let count = 0;
              for (let i = 0; i < data.length; i += 4) {
                const colour = [data[i], data[i + 1], data[i + 2]];
                const strong = Math.max(...colour) - Math.min(...colour) > 40;
                const grey = colour.every(part => Math.abs(part - 128) < 6);
                if (data[i + 3] > 0 && (strong || grey)) count += 1;
              }
              return count;
            }"""
        )
    )
