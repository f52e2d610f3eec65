"""The JSON report of nccl-tests (`-J`): one document, written as a single line.

Python per result, since a report has tens of them in nested objects. The document repeats the whole
environment of the process, secrets included: no part of it is kept, not even in a reject.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import polars as pl

from fleetmark.source import REJECTS_SCHEMA

from ..tables.collective_bench import COLLECTIVE_BENCH
from ._nccl_tests_runs import FUNCTIONS, SPELLINGS

REPORT = r'^\s*\{\s*"version"\s*:\s*\d+\s*,\s*"start_time"\s*:'
_PROGRAM = re.compile(rf"(?i)(?:^|/)({SPELLINGS})_perf$")
_PLACEMENTS = ("out_of_place", "in_place")
_SCHEMA = {**COLLECTIVE_BENCH.polars_schema(), "line_no": pl.Int64()}


def read_reports(
    reports: pl.DataFrame, stated: str, no_function: str, wrong_time: str | None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows of `collective_bench` without cluster, job and time, and rejects, one per bad report.

    `stated` is the function to take where the report's command line names none; `no_function` and
    `wrong_time` are the reasons to refuse one.
    """
    rows: list[dict[str, Any]] = []
    bad: list[tuple[int, str, str]] = []
    for line_no, text in reports.select("line_no", "text").iter_rows():
        try:
            report = json.loads(text)
            results = report["results"]
            found = [_result(result) for result in results]
        except (ValueError, RecursionError, KeyError, TypeError):
            bad.append((line_no, "a JSON report that is cut or of another shape", ""))
            continue
        function = _function(report) or FUNCTIONS.get(stated.lower().replace("_", ""))
        refusal = wrong_time or (no_function if function is None else None)
        if refusal or not found:
            bad.append((line_no, refusal or "a JSON report without results", ""))
            continue
        run = _run(report) | {"function": function, "line_no": line_no}
        rows += [
            run | placed | {"row_no": row_no}
            for row_no, result in enumerate(found, start=1)
            for placed in result
        ]
    return (
        pl.DataFrame(rows, schema=_SCHEMA, orient="row").drop("cluster", "job_id", "ts"),
        pl.DataFrame(bad, schema=REJECTS_SCHEMA, orient="row"),
    )


def _function(report: dict[str, Any]) -> str | None:
    args = report.get("args")
    name = args[0] if isinstance(args, list) and args else None
    program = _PROGRAM.search(name) if isinstance(name, str) else None
    return FUNCTIONS[program[1].lower().replace("_", "")] if program else None


def _run(report: dict[str, Any]) -> dict[str, Any]:
    """What holds for the whole report; devices stand in `config`, or beside it."""
    config = report.get("config")
    listed = (config.get("devices") if isinstance(config, dict) else None) or report.get("devices")
    devices = [d for d in listed if isinstance(d, dict)] if isinstance(listed, list) else []
    ranks = {_integer(d.get("rank")) for d in devices}
    groups = [_integer(d.get("group")) for d in devices]
    sizes = {groups.count(group) for group in groups}
    whole = ranks == set(range(len(devices))) and len(sizes) == 1
    said = json.dumps([devices, report["results"]], sort_keys=True)
    return {
        "run_id": hashlib.sha256(said.encode()).hexdigest()[:16],
        "n_ranks": sizes.pop() if whole else None,
        "group_count": len(set(groups)) or None,
        "nodes": _texts(devices, "hostname"),
        "gpu_models": _texts(devices, "device_info"),
    }


def _result(result: dict[str, Any]) -> list[dict[str, Any]]:
    """The placements that one result states."""
    root = re.fullmatch(r"\s*(\d{1,9})\s*", str(result.get("root")))
    redop = _text(result.get("redop"))
    size_bytes = _integer(result["size"])
    if size_bytes is None:
        # Left to the gate it would be a reject with the whole line, environment included.
        raise ValueError("a result without a size")
    labels = {
        "size_bytes": size_bytes,
        "count": _integer(result.get("count")),
        "dtype": _text(result.get("type")),
        "redop": None if redop == "none" else redop,
        "root": int(root[1]) if root else None,
    }
    stated = ((placement, result.get(placement)) for placement in _PLACEMENTS)
    return [
        labels
        | {
            "placement": placement,
            "time_s": _scaled(body.get("time", body.get("cpu_time")), 1e-6),
            "time_source": "elapsed" if "time" in body else "cpu",
            "algbw_bytes_per_s": _scaled(body.get("alg_bw"), 1e9),
            "busbw_bytes_per_s": _scaled(body.get("bus_bw"), 1e9),
            "wrong_count": _integer(_scaled(body.get("nwrong"), 1)),
        }
        for placement, body in stated
        if isinstance(body, dict)
    ]


def _integer(value: object) -> int | None:
    """A whole number that BIGINT holds; counts are written as decimals (`0.000000`)."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**63:
        return None
    return int(value)


def _scaled(value: object, factor: float) -> float | None:
    """A number in the table's unit; what is none (`nan` is written as text) is not known."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e300:
        return None
    return round(value * factor, 9)


def _text(value: object) -> str | None:
    """Text that UTF-8 can hold."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) and value else None


def _texts(devices: list[dict[str, Any]], name: str) -> list[str]:
    return sorted({text for d in devices if (text := _text(d.get(name)))})
