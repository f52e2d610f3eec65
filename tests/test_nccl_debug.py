"""NCCL_DEBUG output: real logs counted by other means, and lines torn at every place."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl

from fleetmark.catalog import load_catalog
from fleetmark.source import Context, Parsed
from fleetmark.testing import parse_file

SAMPLES = Path(__file__).parent.parent / "samples" / "collectives" / "nccl_debug"
SOURCE = load_catalog().sources["nccl_debug"]
OPTIONS = {"cluster": "c", "job_id": "j", "attempt": "1"}


def parse(*lines: str) -> Parsed:
    frame = pl.DataFrame({"line_no": range(1, len(lines) + 1), "text": lines})
    return SOURCE.parse(frame, Context("log", OPTIONS))  # type: ignore[arg-type]  # reads lines


def events(parsed: Parsed) -> pl.DataFrame:
    frame = parsed.tables["nccl_log_event"]
    return frame.collect() if isinstance(frame, pl.LazyFrame) else frame


def test_the_real_log_of_32_ranks_counted_line_by_line() -> None:
    path = SAMPLES / "all_reduce_bench-a100-n4.txt"
    text = path.read_text()
    want = {
        "init_complete": len(re.findall(r"Init COMPLETE", text)),
        "channel": len(re.findall(r"NCCL INFO Channel .* via ", text)),
        "ring": len(re.findall(r"NCCL INFO Channel \d+/\d+ : ", text)),
        "channel_count": len(re.findall(r" coll channels, ", text)),
        "bootstrap": len(re.findall(r"Bootstrap : Using ", text)),
        "network": len(re.findall(r"Using network IB|NET/IB : Using ", text)),
        "version": len(re.findall(r"NCCL version ", text)),
    }
    parsed = parse_file(SOURCE, path)
    got = dict(events(parsed)["event"].value_counts().iter_rows())
    assert got == {name: count for name, count in want.items() if count}
    assert parsed.rejects.is_empty()
    assert parsed.skipped == text.count("\n") - sum(want.values())


def test_the_real_log_of_32_ranks_maps_each_rank_once() -> None:
    parsed = parse_file(SOURCE, SAMPLES / "all_reduce_bench-a100-n4.txt")
    ranks = parsed.tables["rank_map"].lazy().filter(pl.col("comm_rank") >= 0).collect()
    assert sorted(ranks["comm_rank"]) == list(range(32))
    assert ranks["node"].n_unique() == 4
    assert (
        ranks.group_by("node").agg(pl.col("cuda_device").n_unique())["cuda_device"].to_list()
        == [8] * 4
    )


def test_a_line_torn_anywhere_gives_the_whole_message_and_nothing_false() -> None:
    head = "gpu-dev-b5:1800:1801 [6] NCCL INFO ncclCommInitRankConfig "
    first = f"{head}comm 0x55 rank 6 nranks 8 cudaDev 6 nvmlDev 6 busId b9000 commId 0x5ce9 - Init COMPLETE"
    other = "gpu-dev-b6:77:78 [1] NCCL INFO comm 0x99 rank 1 nranks 8 cudaDev 1 nvmlDev 1 busId 97000 commId 0x5ce9 - Init COMPLETE"
    cuts = range(len(head), len(first))
    parsed = parse(*(first[:cut] + other for cut in cuts))
    found = events(parsed).filter(pl.col("event") == "init_complete")
    assert found.height == len(cuts)
    assert set(found.select("node", "pid", "comm_rank", "pci_bus_id").iter_rows()) == {
        (None, 77, 1, "0000:97:00.0")
    }


def test_the_host_of_a_torn_line_is_known_from_the_line_alone() -> None:
    parsed = parse(
        "host-a:1:1 [0] NCCL INFO ncclCommInitRank comm 0x1 busId 86host-a:2:2 [1] NCCL INFO Using network IB"
    )
    assert events(parsed).select("node", "pid").row(0) == ("host-a", 2)


def test_the_rest_of_a_torn_line_is_counted_and_says_nothing() -> None:
    parsed = parse("000 commId 0x5ce9425bd0a52729 - Init COMPLETE", "1.30, bootstrap 0.19)")
    assert events(parsed).is_empty()
    assert parsed.skipped == 2


def test_init_lines_of_nccl_2_4_name_no_bus() -> None:
    """As in NVIDIA/nccl issue 214 and NVIDIA/nccl-tests issue 29."""
    (row,) = events(
        parse(
            "n2:17932:18078 [1] NCCL INFO comm 0x7fd694002360 rank 1 nranks 16 cudaDev 1 nvmlDev 1 - Init COMPLETE"
        )
    ).rows(named=True)
    assert (row["event"], row["comm_rank"], row["n_ranks"]) == ("init_complete", 1, 16)
    assert (row["nvml_device"], row["pci_bus_id"]) == (1, None)


def test_the_watchdog_states_how_far_the_group_got_in_every_wording() -> None:
    """The first as in NVIDIA/nccl issue 1730, the others from ProcessGroupNCCL.cpp."""
    head = "[rank118]:[E603 17:48:01.005538748 ProcessGroupNCCL.cpp:2268] "
    end = "last enqueued work: 2398578, last completed work: 2398458"
    rows = events(
        parse(
            f"{head}[PG ID 0 PG GUID 0(default_pg) Rank 118]  failure detected by watchdog at work "
            f"sequence id: 2398459 PG status: {end}",
            f"{head}[PG 3 Rank 5] Timeout at NCCL work: 7, {end.replace('work', 'NCCL work')}.",
            f"{head}[PG ID 2 PG GUID 1 Rank 3] Exception (either an error or timeout) detected by "
            f"watchdog at work: 9, {end.replace('work', 'NCCL work')}.",
            f"{head}[PG ID 2 PG GUID 1 Rank 3] Received a dump signal, {end}.",
        )
    ).sort("line_no")
    assert rows["event"].to_list() == ["watchdog_state"] * 4
    assert rows["seq"].to_list() == [2398459, 7, 9, None]
    assert rows["pg_name"].to_list() == ["0", "3", "1", "1"]
    assert rows["last_enqueued_seq"].to_list() == [2398578] * 4
    assert rows["last_completed_seq"].to_list() == [2398458] * 4
