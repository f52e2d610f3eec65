"""What nvidia-smi prints of GPUs and their links."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Option, Parsed, source
from fleetmark.table import TYPES

from ..scheduler._slurm_time import is_zone
from ..tables.gpu_identity import GPU_IDENTITY
from ..tables.gpu_link_sample import GPU_LINK_SAMPLE
from ..tables.gpu_sample import GPU_SAMPLE
from ..tables.gpu_sample_extra import GPU_SAMPLE_EXTRA
from ._gpu_series import canonical_uuid
from ._nvidia_smi_blocks import Capture
from ._nvidia_smi_rows import Placed, rows_of
from ._nvidia_smi_segments import GpuLinks, Segments
from ._scrape_pages import MARKER, NAME_TIME, Page, pages_of

_OPTIONS = (
    Option("node", "host the output was taken on; nvidia-smi does not say it"),
    Option("tz", "zone of the machine, as an IANA name: nvidia-smi prints local time without it"),
    Option("ts", "time of the output, RFC 3339 with zone or epoch s, where it says none or tz is not known"),
    Option("fields", "what --query-gpu= was given, for CSV without header"),
    Option("gpus", "UUIDs of the host's GPUs in the order of nvidia-smi -L, separated by commas, for CSV with index and no uuid"),
)  # fmt: skip
_NO_NODE = (
    "no host: state --set node=NAME, or put a line '# fleetmark scrape node=NAME' before the output"
)
_NO_ZONE = (
    "the time has no zone: state that of the machine with --set tz=UTC or --set tz=Europe/Berlin, or "
    "the time with --set ts=2026-03-20T12:23:43Z"
)
_NO_TIME = (
    "the output says no time: state --set ts=2026-03-20T12:23:43Z, or put a line "
    "'# fleetmark scrape ts=TIME' before it"
)
_GONE = "local time {} does not exist in zone {}: its clocks were put forward over it"
_SNIFF = re.compile(
    rb"^=+NVSMI LOG=+\r?$|<!DOCTYPE nvidia_smi_log|<nvidia_smi_log>"
    rb"|^(?=.*\b(?:uuid|gpu_uuid|pci\.bus_id|utilization\.gpu|memory\.used|power\.draw|temperature\.gpu)\b)(?:[a-z][\w.]*(?: \[[^\]]+\])?, )+[a-z][\w.]*(?: \[[^\]]+\])?\r?$"
    rb"|^GPU \d+: .+ \(UUID: GPU-\S+\)\r?\n\s+Link \d+: ",
    re.MULTILINE,
)


def _looks_like_nvidia_smi(head: bytes, _file_name: str) -> bool:
    return bool(_SNIFF.search(head)) and b"used_gpu_memory" not in head[:4096]


@source(
    outputs=(GPU_SAMPLE, GPU_SAMPLE_EXTRA, GPU_IDENTITY, GPU_LINK_SAMPLE),
    options=_OPTIONS,
    name_facts=NAME_TIME,
    sniff=_looks_like_nvidia_smi,
)
def nvidia_smi(lines: pl.DataFrame, context: Context) -> Parsed:
    """Output of nvidia-smi: `-q` and `-q -x` (schemas v10 to v13), `--query-gpu=… --format=csv`, with or
    without header and units, `nvlink --status` and `nvlink --errorcounters`; any number of runs in one
    file, of several forms too.

    nvidia-smi prints local time without a zone (option `tz`) and never its host (option `node`).
    A line `# fleetmark scrape ts=TIME node=NAME` states both for what follows it. CSV without header
    needs `fields`. GPUs are told apart by UUID: what names none (in CSV with a column index `gpus` may
    state them), or is cut, is a reject.

    A text in place of a value (N/A, ERR!, [Unknown Error], deprecated) is NULL with its reason in
    `quality`. Kept: what signals.toml and gpu_identity have a column for. Not kept: processes and their
    names, supported clocks, encoder sessions, page lists; lines around the output are rejects.

    140,000 lines of -q or 1,100 CSV lines of all 212 fields per CPU second: the formats are read line
    by line.
    """
    markers = lines.filter(pl.col("text").str.starts_with(MARKER))
    found = Segments(lines.select("line_no", "text").iter_rows(), context)
    held_from = None if context.at_end else found.open_from(markers["line_no"].to_list())
    if held_from is not None:
        found.settle(held_from)
        lines = lines.filter(pl.col("line_no") < held_from)
        markers = markers.filter(pl.col("line_no") < held_from)
    pages = pages_of(markers, context)
    placed, timeless = _placed(found.captures, pages, context.options.get("tz"))
    tables, refused = rows_of(placed)
    tables["gpu_link_sample"], lost = _links(found.links, pages)
    cluster = pl.lit(context.options["cluster"]).alias("cluster")
    bad = [(page.line_no, page.problem) for page in pages[1:] if page.ts is None and page.is_stated]
    return Parsed(
        tables={name: rows.with_columns(cluster) for name, rows in tables.items()},
        rejects=_rejects(lines, [*found.refused, *timeless, *refused, *lost, *bad]),
        skipped=len(found.skipped) - len(bad),
        held_from=held_from,
    )


def _page_of(pages: Sequence[Page], line_no: int) -> Page:
    return next(page for page in reversed(pages) if page.line_no <= line_no)


def _placed(
    captures: Sequence[Capture], pages: Sequence[Page], zone: str | None
) -> tuple[list[Placed], list[tuple[int, str]]]:
    """Captures whose time and node are known, and why the others are not."""
    placed, refused = [], []
    for capture in captures:
        page = _page_of(pages, capture.line_no)
        ts, problem = _time(capture.local_ts, page, zone)
        node = page.node or capture.node
        problem = capture.problem or problem or (None if node else _NO_NODE)
        if problem or ts is None or node is None:
            refused.append((capture.line_no, problem or _NO_TIME))
        else:
            placed.append(Placed(capture, ts, node))
    return placed, refused


def _time(
    local: datetime | None, page: Page, zone: str | None
) -> tuple[datetime | None, str | None]:
    """The time of a capture, UTC: its own in the stated zone, else that of its page; or why none."""
    if zone is not None and not is_zone(zone):
        return None, f"tz={zone} is no time zone name such as UTC or Europe/Berlin"
    if local is None or zone is None:
        missing = _NO_ZONE if local else _NO_TIME
        return page.ts, None if page.ts else page.problem if page.is_stated else missing
    # In the hour that a clock change repeats, the first reading.
    ts = local.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    if ts.astimezone(ZoneInfo(zone)).replace(tzinfo=None) != local:
        return None, _GONE.format(local, zone)
    return ts.replace(tzinfo=None), None


def _links(
    gpus: Sequence[GpuLinks], pages: Sequence[Page]
) -> tuple[pl.DataFrame, list[tuple[int, str]]]:
    """Rows of gpu_link_sample (without `cluster`), one per link and run."""
    rows: dict[tuple[str, str, int, datetime], dict[str, object]] = {}
    refused = []
    for gpu in gpus:
        page = _page_of(pages, gpu.line_no)
        if not gpu.facts:
            continue
        if page.ts is None or page.node is None:
            problem = page.problem if page.is_stated and page.ts is None else _NO_TIME
            refused.append((gpu.line_no, problem if page.ts is None else _NO_NODE))
            continue
        uuid = canonical_uuid(gpu.uuid)
        for line_no, fact in gpu.facts:
            who = {"node": page.node, "gpu_uuid": uuid, "link": fact.link, "ts": page.ts}
            row = rows.setdefault(
                (page.node, uuid, fact.link, page.ts),
                who | {"line_no": line_no, "gpu_index": gpu.index, "gpu_model": gpu.model},
            )
            if fact.column:
                row.setdefault(fact.column, fact.value)
            if fact.column == "speed_bytes_per_s":
                row["state"] = "up"
    schema = {c.name: TYPES[c.type] for c in GPU_LINK_SAMPLE.columns if c.name != "cluster"}
    return pl.DataFrame(list(rows.values()), schema={**schema, "line_no": pl.Int64()}), refused


def _rejects(lines: pl.DataFrame, refused: Sequence[tuple[int, str]]) -> pl.DataFrame:
    reasons = pl.DataFrame(
        refused, schema={"line_no": pl.Int64(), "reason": pl.String()}, orient="row"
    )
    found = reasons.join(lines, on="line_no", how="left", maintain_order="left")
    return found.select(*REJECTS_SCHEMA).sort("line_no")
