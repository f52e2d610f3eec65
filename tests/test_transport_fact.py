"""Transport fall-backs on the public NCCL log of four hosts, as it is and with one host changed."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from fleetmark.catalog import load_catalog
from fleetmark.testing import complete, compute, parse_file, source_rows

CATALOG = load_catalog()
LOG = "samples/collectives/nccl_debug/all_reduce_bench-a100-n4.txt"
SAMPLE = Path(__file__).parent.parent / LOG


def fallbacks(path: Path) -> list[tuple[str, str, str, int]]:
    """(node, fact, transport, better_count) that the library's log shows."""
    rows, _ = source_rows(
        CATALOG.sources["nccl_debug"], parse_file(CATALOG.sources["nccl_debug"], path)
    )
    table = CATALOG.tables["nccl_log_event"]
    facts = compute(
        CATALOG,
        CATALOG.models["transport_fact"],
        {"nccl_log_event": complete(table, rows["nccl_log_event"])},
        {},
    )
    found = facts.filter(pl.col("is_fallback"))
    return list(found.select("node", "fact", "transport", "better_count").iter_rows())


def test_a_cluster_without_gpudirect_has_not_fallen_back() -> None:
    """No rank of the four hosts has GPUDirect, so nobody lacks what others have."""
    assert fallbacks(SAMPLE) == []


def test_the_one_host_that_uses_sockets_is_named(tmp_path: Path) -> None:
    lines = SAMPLE.read_text(encoding="utf-8").splitlines(keepends=True)
    changed = [
        line.replace("via NET/IB/", "via NET/Socket/") if "jean-zay-iam40:" in line else line
        for line in lines
    ]
    assert changed != lines
    path = tmp_path / SAMPLE.name
    path.write_text("".join(changed), encoding="utf-8")
    assert fallbacks(path) == [("jean-zay-iam40", "socket_network", "NET/Socket/1", 3)]
