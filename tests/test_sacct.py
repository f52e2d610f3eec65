"""Slurm accounting text: properties of its grammars, and real files that must agree."""

from __future__ import annotations

from datetime import datetime
from importlib import import_module
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetmark.catalog import load_catalog
from fleetmark.pipeline.run import ingest
from fleetmark.source import Context, Parsed
from fleetmark.store import Store
from fleetmark.testing import EPOCH, differences, parse_file, read_rows

# The folders are installed under another name, which type checkers cannot follow.
nodes_of = import_module("fleetmark.ingest.scheduler._slurm_nodes")
state_of = import_module("fleetmark.ingest.scheduler._slurm_state")
time_of = import_module("fleetmark.ingest.scheduler._slurm_time")
tres_of = import_module("fleetmark.ingest.scheduler._slurm_tres")
CATALOG = load_catalog()
SACCT = CATALOG.sources["sacct"]

SAMPLES = Path(__file__).parent.parent / "samples" / "scheduler"
SLURM = SAMPLES / "slurm-22.05"
CASES = Path(__file__).parent / "cases" / "sources" / "sacct"
OPTIONS = {"cluster": "default", "tz": "UTC", "delimiter": "|"}
HEADER = "JobID|JobName|User|State|Submit|Start|End|Comment|NodeList"
NAMES = st.from_regex(r"[a-z][a-z0-9_.\-]{0,8}", fullmatch=True)


def parse(lines: list[str], first_line: str, *, at_end: bool = True, from_line: int = 1) -> Parsed:
    numbers = range(from_line, from_line + len(lines))
    frame = pl.DataFrame(
        {"line_no": list(numbers), "text": lines},
        schema={"line_no": pl.Int64, "text": pl.String},
    )
    context = Context("x", OPTIONS, first_line, at_end=at_end)
    return SACCT.parse(frame, context)  # type: ignore[arg-type]  # it reads lines


def parse_text(text: str) -> Parsed:
    lines = text.split("\n")
    return parse(lines, lines[0])


def attempts(parsed: Parsed) -> pl.DataFrame:
    return parsed.tables["job_attempt"].lazy().collect()


def accounted(parsed: Parsed) -> int:
    """Lines that became rows (each line once), rejects or skipped ones."""
    numbers = {n for t in parsed.tables.values() for n in t.lazy().collect()["line_no"]}
    return len(numbers | set(parsed.rejects["line_no"])) + parsed.skipped


@given(st.lists(NAMES, min_size=1, max_size=6, unique=True))
def test_plain_node_lists_expand_to_themselves(names: list[str]) -> None:
    assert nodes_of.expand_nodes(",".join(names)) == names


@given(NAMES, st.integers(0, 999), st.integers(0, 30), st.integers(1, 5), NAMES)
def test_ranges_keep_their_padding(
    prefix: str, first: int, more: int, width: int, suffix: str
) -> None:
    low, high = str(first).zfill(width), str(first + more).zfill(width)
    expanded = nodes_of.expand_nodes(f"{prefix}[{low}-{high}]{suffix}")
    wanted = [f"{prefix}{str(n).zfill(len(low))}{suffix}" for n in range(first, first + more + 1)]
    assert expanded == wanted


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("gpu[01,04]", ["gpu01", "gpu04"]),
        ("r[1-2]n[01-02]", ["r1n01", "r1n02", "r2n01", "r2n02"]),
        ("a-1.b_c,x[9-11]-ib", ["a-1.b_c", "x9-ib", "x10-ib", "x11-ib"]),
        ("n[1-2,2]", ["n1", "n2"]),
        ("n[2-1]", None),
        ("n[1", None),
        ("n1,,n2", None),
        ("n[1-99999999]", None),
    ],
)
def test_node_lists(text: str, nodes: list[str] | None) -> None:
    assert nodes_of.expand_nodes(text) == nodes


@given(st.text(alphabet="gpu0123456789[],-._ %:", max_size=40))
def test_folded_lists_never_raise(text: str) -> None:
    nodes_of.expand_nodes(text)
    nodes_of.expand_tasks(text, 1000)


@given(st.integers(0, 400), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_durations(days: int, hours: int, minutes: int, seconds: int) -> None:
    wanted = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    short = f"{minutes:02}:{seconds:02}.123"
    texts = [f"{days}-{hours:02}:{minutes:02}:{seconds:02}", short]
    frame = pl.DataFrame({"text": texts})
    assert frame.select(time_of.durations(pl.col("text"))).to_series().to_list() == [
        wanted,
        minutes * 60 + seconds,
    ]


@given(
    st.dictionaries(
        st.sampled_from(["a100", "h100", "1g.10gb", "a100-sxm4-80gb"]), st.integers(0, 64)
    ),
    st.booleans(),
    st.randoms(),
)
def test_gpus_are_never_counted_twice(typed: dict[str, int], generic: bool, random: object) -> None:
    entries = [f"gres/gpu:{model}={number}" for model, number in typed.items()]
    entries += [f"gres/gpu={sum(typed.values())}"] if generic else []
    entries += ["cpu=4", "gres/gpumem=80G", "gres/gpuutil=97", "mem=2G"]
    random.shuffle(entries)  # type: ignore[attr-defined]  # hypothesis gives a random.Random
    row = tres_of.parse_tres(",".join(entries))
    assert row is not None
    assert row["gpus"] == (sum(typed.values()) if typed or generic else None)
    assert row["mem_bytes"] == 2 << 30


@pytest.mark.parametrize(
    ("text", "gpus", "models", "source"),
    [
        ("cpu=4,gres/gpu=2,gres/gpu:h100:2=2", 2, ["h100"], "tres_generic"),
        ("gres/gpu:h100:2=2", 2, ["h100"], "tres_typed"),
        ("gres/gpu=1.5,cpu=4", None, None, "fractional"),
        ("gres/gpu:a100=0.25,gres/gpu=1", None, None, "fractional"),
        ("gres/gpu=1.50K", 1536, None, "tres_generic"),
        ("gres/gpu:1g.10gb=7", 7, ["1g.10gb"], "tres_typed"),
        ("gres/gpu:(null)=4", 4, None, "tres_typed"),
    ],
)
def test_tres_gpus(text: str, gpus: int | None, models: list[str] | None, source: str) -> None:
    row = tres_of.parse_tres(text)
    assert row is not None
    assert (row["gpus"], row["gpu_models"], row["gpu_count_source"]) == (gpus, models, source)


@pytest.mark.parametrize(
    ("text", "nodes", "gpus"),
    [
        ("gpu:a100:4,gpu:h100:4(IDX:0-3)", 1, 8),
        ("gpu:(null):4(IDX:0-3,5)", 1, 4),
        ("gpu:1g.10gb:7", 1, 7),
        ("PER_NODE:gpu:8", 4, 32),
        ("gpu", 1, 1),
        ("craynetwork:2", 1, None),
    ],
)
def test_gres(text: str, nodes: int, gpus: int | None) -> None:
    row = tres_of.parse_gres(text, nodes)
    assert (row and row["gpus"]) == gpus


@given(st.text(max_size=30))
def test_small_grammars_never_raise(text: str) -> None:
    tres_of.parse_tres(text)
    tres_of.parse_gres(text, None)
    state_of.parse_state(text)
    tres_of.size_bytes(text)


@given(st.lists(st.text(alphabet="1579_[]-.|:+ \t%,TabcCOMPLETEDRUNNING", max_size=60), max_size=8))
@settings(max_examples=60, deadline=None)
def test_any_lines_are_accounted_for(lines: list[str]) -> None:
    body = [
        HEADER,
        *lines,
        "1|a|u|COMPLETED|2026-01-01T00:00:00|2026-01-01T00:00:01|2026-01-01T00:00:02||n1",
    ]
    assert accounted(parse(body, HEADER)) == len(body)


FREE = st.text(alphabet="ab| \n:=1", max_size=12)


@given(FREE, FREE)
@settings(max_examples=300, deadline=None)
def test_free_text_is_recovered_or_refused_never_shifted(name: str, comment: str) -> None:
    row = f"7|{name}|ann|FAILED|2026-01-01T00:00:00|2026-01-01T00:00:01|2026-01-01T00:00:02|{comment}|n1"
    parsed = parse_text(f"{HEADER}\n{row}\n8|x|bob|PENDING|2026-01-01T00:00:00|Unknown|Unknown||")
    found = attempts(parsed)
    assert "8" in found["job_id"]
    for job in found.filter(pl.col("job_id") == "7").iter_rows(named=True):
        assert (job["principal"], job["state"], job["node_list"]) == ("ann", "FAILED", ["n1"])
        assert job["start_ts"] == datetime(2026, 1, 1, 0, 0, 1)  # noqa: DTZ001 - UTC without zone


@pytest.mark.parametrize("size", [2, 3, 7, 20])
def test_chunks_of_any_size_give_the_same_rows(size: int) -> None:
    """Records over several lines, held back from chunk to chunk."""
    lines = (SLURM / "sacct-parsable2-allocations.txt").read_text().rstrip("\n").split("\n")
    whole = parse(lines, lines[0])
    parts, taken = [], 0
    ahead = size
    while taken < len(lines):
        ahead = min(max(ahead, 1), len(lines) - taken)
        at_end = taken + ahead == len(lines)
        part = parse(lines[taken : taken + ahead], lines[0], at_end=at_end, from_line=taken + 1)
        reach = (part.held_from or taken + ahead + 1) - 1
        if reach == taken:
            ahead += size
            continue
        parts.append(part)
        taken, ahead = reach, size
    got = pl.concat([attempts(p) for p in parts])
    assert got.equals(attempts(whole))
    assert sum(p.skipped for p in parts) == whole.skipped


@pytest.mark.parametrize(
    "name",
    ["delimiter-0x1f", "parsable-trailing-pipe", "parsable2-all-fields", "parsable2-steps"],
)
def test_formats_of_the_same_jobs_agree_with_slurms_json(name: str) -> None:
    """The golden case `allocations` holds what Slurm's own JSON says of these jobs."""
    table = SACCT.outputs[0]
    want = read_rows(CASES / "allocations" / "job_attempt.csv", table)
    got = attempts(parse_file(SACCT, SLURM / f"sacct-{name}.txt", tz="UTC"))
    assert differences(got, want, 0) == []


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("default-table", "is sacct's table for people, whose values are cut: "),
        ("noconvert-memory", "the file has no times, so attempts cannot be told apart: "),
        ("parsable2-noheader", "the first line is no sacct header: collect without -n, "),
    ],
)
def test_files_that_cannot_be_read_say_what_to_do(name: str, reason: str) -> None:
    path = SLURM / f"sacct-{name}.txt"
    parsed = parse_file(SACCT, path, tz="UTC")
    assert parsed.tables == {}
    assert parsed.rejects.height == path.read_text().count("\n")
    assert parsed.rejects["reason"].str.starts_with(reason).all()


def test_spellings_of_the_same_jobs_give_one_store(tmp_path: Path) -> None:
    """Overlapping pulls in five formats, poor ones last: no attempt twice, no known value lost."""
    full = ("allocations", "steps", "all-fields")
    names = [f"sacct-parsable2-{n}.txt" for n in full]
    names += ["sacct-delimiter-0x1f.txt", "sacct-parsable-trailing-pipe.txt"]
    poor = ["sacct-parsable2-no-duplicates-no-end.txt", "sacct-times-with-offset.txt"]
    with Store(tmp_path / "store", memory_mb=512) as store:
        store.ensure(CATALOG.tables.values())
        options = {"tz": "UTC", "cluster": "testgpu"}
        paths = [SLURM / n for n in [*names, *poor, "sacct-epoch-times.txt"]]
        reports = list(ingest(store, CATALOG, "sacct", paths, options, {}, EPOCH))
        assert sum(r.reject_count for r in reports) == 0
        row = store.connection.execute(
            "SELECT count(*), sum(alloc_gpus), count(node_list), count(db_index) FROM lake.job_attempt"
        ).fetchone()
    # 44 attempts; the gres/gpu numbers of 37 sum to 94; 4 never started; db_index is in one file only.
    assert row == (44, 94, 40, 44)


def test_a_later_pull_replaces_an_open_attempt(tmp_path: Path) -> None:
    head = "JobID|State|Submit|Start|End|ElapsedRaw|AllocTRES\n"
    pulls = [
        "1|PENDING|100|Unknown|Unknown|0|\n",
        "1|RUNNING|100|110|Unknown|5|gres/gpu=8\n",
        "1|RUNNING|100|110|Unknown|50|gres/gpu=8\n",
        "1|COMPLETED|100|110|200|90|gres/gpu=8\n",
    ]
    paths = []
    for at, text in enumerate(pulls):
        paths.append(tmp_path / f"{at}.txt")
        paths[-1].write_text(head + text)
    for at, order in enumerate((paths, paths[::-1])):
        with Store(tmp_path / f"store{at}", memory_mb=512) as store:
            store.ensure(CATALOG.tables.values())
            list(ingest(store, CATALOG, "sacct", order, {}, {}, EPOCH))
            rows = store.connection.execute(
                "SELECT state, elapsed_s FROM lake.job_attempt"
            ).fetchall()
            assert rows == [("COMPLETED", 90)]


def test_running_ends_are_never_invented() -> None:
    parsed = parse_file(SACCT, SLURM / "sacct-parsable2-allocations.txt", tz="UTC")
    is_open = attempts(parsed).filter(pl.col("state").is_in(["RUNNING", "SUSPENDED", "PENDING"]))
    assert is_open.height == 4
    assert is_open["end_ts"].null_count() == 4
    stated = parse_file(
        SACCT,
        SLURM / "sacct-parsable2-allocations.txt",
        tz="UTC",
        observed_at="2026-11-30T10:50:00",
    )
    moved = attempts(stated).filter(pl.col("observed_ts") == datetime(2026, 11, 30, 10, 50))  # noqa: DTZ001 - UTC
    assert moved["job_id"].sort().to_list() == ["39", "42", "43", "44"]
