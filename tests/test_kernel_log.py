"""Kernel log: no text breaks it, no line is lost, and chunks change nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from fleetmark.catalog import load_catalog
from fleetmark.source import Context, Parsed
from fleetmark.testing import cases_of

CATALOG = load_catalog()
kernel_log = CATALOG.sources["kernel_log"]
SAMPLES = Path(str(files("fleetmark.samples")))
CASES = Path(__file__).parent / "cases"
FACTS = {
    "cluster": "c",
    "node": "n",
    "tz": "Europe/Berlin",
    "year": "2026",
    "boot_ts": "2026-01-01T00:00:00Z",
}
# Machines under test are shared: no deadline per example.
QUICK = settings(deadline=None, max_examples=40)

STAMP = st.sampled_from(
    [
        "Mar  5 04:00:00 h kernel: ",
        "Mar  5 04:00:00 h kernel: [1.5] ",
        "Dec 31 23:59:60 h ",
        "2026-03-29T02:30:00 h kernel: ",
        "9999-12-31T23:59:59-12:00 h kernel: ",
        "[99999999999999999999.5] ",
        "[    1.000001] ",
        "[Thu Feb 30 04:00:00 2026] ",
        "<3>1 2026-03-05T03:00:00.003Z h kernel - - - ",
        "3,1,99999999999999999999,-;",
        "",
        "[",
    ]
)
MESSAGE = st.sampled_from(
    [
        "NVRM: Xid (PCI:0000:3b:00): 48, pid=1, name=a, x",
        "NVRM: Xid (PCI:0000:3b:00): 99999, pid=99999999999999999999, name=, x",
        "NVRM: Xid (PCI:zz): 4",
        "NVRM: Xid",
        "nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Fatal, Link 99999999999",
        "NVRM: The NVIDIA GPU 0000:18:00.0",
        "NVRM: (PCI ID: 10de:2330) installed in this system has",
        "NVRM: fallen off the bus and is not responding to commands.",
        "message repeated 99999999999999999999 times: [ ib0: lost carrier]",
        "f: 99999999999999999999 callbacks suppressed",
        "ib0: Lost carrier",
        "eth0: link up",
        "amdgpu 0000:c3:00.0: amdgpu: 999999999999999999999 new correctable hardware errors detected in x block",
        "amdgpu 0000:c3:00.0: {1}socket: 6, die: 1, 7 uncorrectable hardware errors detected in umc block",
        "nothing of interest",
    ]
)
ANY_FIELD = st.one_of(st.none(), st.integers(), st.text(max_size=3), st.lists(st.integers(0, 300)))
JOURNAL_ENTRY = st.builds(
    lambda fields, message, cut: json.dumps(fields | message)[:cut],
    st.dictionaries(
        st.sampled_from(
            ["__REALTIME_TIMESTAMP", "_HOSTNAME", "_TRANSPORT", "SYSLOG_IDENTIFIER", "_PID"]
        ),
        st.one_of(ANY_FIELD, st.sampled_from(["1772697600000001", "kernel"])),
    ),
    st.one_of(MESSAGE, ANY_FIELD).map(lambda message: {"MESSAGE": message}),
    st.one_of(st.none(), st.integers(1, 200)),
)
LINE = st.one_of(
    st.tuples(STAMP, MESSAGE, st.text(max_size=3)).map("".join),
    JOURNAL_ENTRY,
    st.text(alphabet=st.characters(exclude_characters="\n\r\0", exclude_categories=["Cs"])),
)


def lines_of(texts: list[str], first: int = 1) -> pl.DataFrame:
    return pl.DataFrame(
        {"line_no": range(first, first + len(texts)), "text": texts},
        schema={"line_no": pl.Int64(), "text": pl.String()},
    )


def run(
    lines: pl.DataFrame, first_line: str, options: Mapping[str, str], *, at_end: bool = True
) -> Parsed:
    context = Context("kern.log", options, first_line, at_end)
    return kernel_log.parse(lines, context)  # type: ignore[arg-type]  # a source that reads lines


def rows(parsed: Parsed) -> pl.DataFrame:
    return parsed.tables["gpu_event"].lazy().collect()


@QUICK
@given(st.lists(LINE, max_size=8), st.booleans())
def test_any_text_is_a_row_a_reject_or_skipped(texts: list[str], has_facts: bool) -> None:
    parsed = run(lines_of(texts), (texts or [""])[0], FACTS if has_facts else {"cluster": "c"})
    assert rows(parsed).height + parsed.rejects.height + parsed.skipped == len(texts)
    assert rows(parsed)["ts"].null_count() == 0
    assert rows(parsed)["ts_precision_s"].null_count() == 0


@QUICK
@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from("hk"), MESSAGE), min_size=1, max_size=20),
    st.integers(1, 5),
)
def test_chunks_change_nothing(steps: list[tuple[int, str, str]], size: int) -> None:
    """Lines in order of time, 0 to 75 s apart: equal ones are counted across the ends of chunks."""
    texts, clock = [], datetime(2026, 3, 5, 4, tzinfo=UTC)
    for step, host, message in steps:
        clock += timedelta(seconds=25 * step)
        texts.append(f"{clock:%b %d %H:%M:%S} {host} kernel: {message}")
    whole = run(lines_of(texts), texts[0], FACTS)
    parts: list[Parsed] = []
    start = end = 0
    while end < len(texts):
        end = min(end + size, len(texts))
        parts.append(run(lines_of(texts[start:end], start + 1), texts[0], FACTS, at_end=False))
        held_from = parts[-1].held_from
        start = end if held_from is None else held_from - 1
    parts.append(run(lines_of(texts[start:], start + 1), texts[0], FACTS))
    assert_frame_equal(pl.concat([rows(part) for part in parts]), rows(whole))
    assert_frame_equal(pl.concat([part.rejects for part in parts]), whole.rejects)
    assert sum(part.skipped for part in parts) == whole.skipped


def test_an_old_event_does_not_hold_the_lines_after_it() -> None:
    lost = "Mar  5 04:00:00 h kernel: ib0: Lost carrier"
    texts = [lost, *[f"Mar  5 05:00:{n:02d} h x[1]: y" for n in range(60)]]
    parsed = run(lines_of(texts), lost, FACTS, at_end=False)
    assert rows(parsed).height == 1
    assert parsed.held_from == 60  # the last two lines: a message about a lost GPU takes three


def test_a_rotated_or_copied_log_adds_no_event() -> None:
    """What two files share has the same key in both; a line repeated within its second has two."""
    lost = "Mar  5 04:00:00 h systemd-networkd[9]: ib0: Lost carrier"
    gained = "Mar  5 04:00:07 h kernel: ib0: link up"
    key = list(CATALOG.tables["gpu_event"].grain)
    old = run(lines_of([lost, lost, gained]), lost, FACTS)
    new = run(lines_of(["Mar  5 03:59:59 h x: y", lost, lost, gained, gained]), lost, FACTS)
    both = pl.concat([rows(old), rows(new)])
    assert rows(old).select(key).n_unique() == 3
    assert both.select(key).n_unique() == 4


def test_a_heading_before_the_first_stamp() -> None:
    """Years are counted from the first stamp while the heading is in sight, else nothing is guessed."""
    heading = "-- Logs begin at Mon 2025-12-01 00:00:00 UTC. --"
    texts = [
        heading,
        "Dec 31 04:00:00 h kernel: ib0: Lost carrier",
        "Jan  1 04:00:00 h kernel: ib0: Gained carrier",
    ]
    facts = FACTS | {"year": "2025"}
    assert rows(run(lines_of(texts), heading, facts))["ts"].dt.year().to_list() == [2025, 2026]
    later = run(lines_of(texts[2:], 3), heading, facts)
    assert "first line has no stamp" in later.rejects["reason"][0]


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("2026-03-05T03:00:00Z h systemd-networkd: ib0: Lost carrier", "h"),
        ("2026-03-05T03:00:00,000001+00:00 mlx5_core 0000:9c:00.0 ib0: Link down", "n"),
        ("Mar  5 04:00:00 10.0.0.1 kernel: ib0: Link down", "10.0.0.1"),
        ("Mar  5 04:00:00 kernel: ib0: Link down", "n"),
        ("Mar  5 04:00:00 NVRM: GPU 0000:29:00.0: GPU has fallen off the bus.", "n"),
    ],
)
def test_a_driver_is_no_host(text: str, node: str) -> None:
    assert rows(run(lines_of([text]), text, FACTS))["node"].to_list() == [node]


@pytest.mark.parametrize(
    "stamp", ["9999-12-31T23:59:59-12:00 h", "[99999999999.000000]", "1969-12-31T00:00:00 h"]
)
def test_a_time_no_log_can_have_is_refused(stamp: str) -> None:
    text = f"{stamp} kernel: ib0: Link down"
    parsed = run(lines_of([text]), text, FACTS)
    assert rows(parsed).is_empty()
    assert "no time between 1970 and 2100" in parsed.rejects["reason"][0]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("tz", "Mars/Base"),
        ("year", "26"),
        ("year", "\u0662\u0660"),
        ("boot_ts", "2026-01-01T00:00:00"),
    ],
)
def test_an_option_that_is_wrong_is_named(option: str, value: str) -> None:
    text = "Mar  5 04:00:00 h kernel: ib0: Lost carrier"
    (reason,) = run(lines_of([text]), text, FACTS | {option: value}).rejects["reason"]
    assert reason.startswith(f"{option}={value} is no ")


def test_auto_takes_each_sample_for_what_it_is() -> None:
    """No file of samples/ looks like two formats, and only kernel logs look like one."""
    mine = []
    for path in sorted(p for p in SAMPLES.rglob("*") if p.is_file()):
        head = path.read_bytes()[:65536]
        claims = [name for name, source in CATALOG.sources.items() if source.sniff(head, path.name)]
        assert len(claims) <= 1, f"{path.name}: {claims}"
        mine += [path.parent.name for name in claims if name == "kernel_log"]
    assert mine == ["kernel"] * 3


def test_inputs_of_other_sources_are_not_claimed_and_mine_are() -> None:
    for name in CATALOG.sources:
        for case in cases_of(CASES, "sources", name):
            head = case.input.read_bytes()[:65536]
            assert kernel_log.sniff(head, case.input.name) == (name == "kernel_log"), case.folder
            claims = [n for n, s in CATALOG.sources.items() if s.sniff(head, case.input.name)]
            assert name != "kernel_log" or claims == ["kernel_log"], case.folder


def test_the_journal_as_json_and_as_text_say_the_same() -> None:
    """Real lines and every form of message; a cut entry is a reject, never another event."""
    for name in ("every_real_shape_with_stamp", "every_event_form"):
        text = CASES / "sources" / "kernel_log" / name / "input.log"
        start = datetime(2026, 3, 5, 8, tzinfo=UTC)
        plain, entries = [], []
        for n, line in enumerate(text.read_text().splitlines()):
            message = line.partition("kernel: ")[2]
            if not message:
                continue
            ts = start + timedelta(seconds=n)
            plain.append(f"{ts.isoformat(timespec='microseconds')} h kernel: {message}")
            fields = {
                "_HOSTNAME": "h",
                "_TRANSPORT": "kernel",
                "SYSLOG_IDENTIFIER": "kernel",
                "MESSAGE": message,
                "__REALTIME_TIMESTAMP": str(int(ts.timestamp()) * 1_000_000),
            }
            entries.append(json.dumps(fields))
        want = run(lines_of(plain), plain[0], FACTS)
        got = run(lines_of(entries), entries[0], FACTS)
        assert rows(want).height > 15, name
        assert_frame_equal(rows(got), rows(want))
        assert got.rejects.select("line_no", "reason").equals(
            want.rejects.select("line_no", "reason")
        )
        for cut in (30, 60, 120, -1):
            short = run(lines_of([entry[:cut] for entry in entries]), entries[0], FACTS)
            assert rows(short).is_empty()
            assert short.rejects.height == len(entries)
