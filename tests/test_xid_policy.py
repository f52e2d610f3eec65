"""The packaged XID policies say what the tools they stand for say, and a store begins with them."""

from __future__ import annotations

import csv
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import polars as pl
import pytest

from fleetmark.catalog import load_catalog
from fleetmark.pipeline.run import ingest
from fleetmark.store import Store
from fleetmark.testing import EPOCH, parse_file, source_rows

CATALOG = load_catalog()
SOURCE = CATALOG.sources["xid_policy"]
(PACKAGED,) = SOURCE.packaged
SAMPLES = files("fleetmark.samples") / "telemetry"


@pytest.fixture(scope="module")
def rules() -> pl.DataFrame:
    rows, refused = source_rows(SOURCE, parse_file(SOURCE, PACKAGED))
    assert refused.is_empty()
    return rows["xid_policy"]


def native(rules: pl.DataFrame, policy: str) -> dict[int, str | None]:
    """What a policy says of each XID, by its own row or that for every other code."""
    own = rules.filter((pl.col("policy") == policy) & (pl.col("event") == "xid"))
    said = dict(own.select("code", "native").iter_rows())
    return {code: said.get(code, said.get(0)) for code in range(1, 177)}


# Column of the catalogue, and what the policy says where the catalogue's cell is empty.
@pytest.mark.parametrize(
    ("policy", "column", "empty"),
    [
        ("nvidia", "nvidia_immediate", None),
        ("k8s_device_plugin", "k8s_device_plugin", None),
        ("eks_agent", "eks_agent", None),
        ("gcm", "gcm", None),
        ("azure_nhc", "azure_nhc", "not listed"),
        ("imbue", "imbue", "not in a listed range"),
        ("dcgm_health", "dcgm_health", "not watched"),
    ],
)
def test_each_policy_says_what_its_tool_says(
    rules: pl.DataFrame, policy: str, column: str, empty: str | None
) -> None:
    with (SAMPLES / "xid_catalog.csv").open(encoding="utf-8") as file:
        want = {int(row["xid"]): row[column] or empty for row in csv.DictReader(file)}
    assert native(rules, policy) == want


def test_what_is_not_settled_is_kept_apart(rules: pl.DataFrame) -> None:
    """XID 63, a row remap that was recorded: ignored, noted, or the node is replaced."""
    said = rules.filter((pl.col("code") == 63) & (pl.col("event") == "xid"))
    assert dict(said.select("policy", "action").iter_rows()) == {
        "nvidia": "none",
        "gpud": "reboot_node",
        "eks_agent": "drain_node",
        "gcm": "investigate",
        "azure_nhc": "drain_node",
        "imbue": "drain_node",
        "dcgm_health": "investigate",
        "fleetmark": "reset_when_idle",
    }


def test_a_store_begins_with_them_and_own_rules_replace_by_time(
    new_store: Callable[[str], Store], rules: pl.DataFrame, tmp_path: Path
) -> None:
    count = "SELECT count(*), count(*) FILTER (action = 'drain_node') FROM lake.xid_policy"
    own = tmp_path / "own.csv"
    own.write_text(
        "policy,codes,action,recorded_ts\n"
        "fleetmark,63,drain_node,2100-01-01\n"
        "fleetmark,64,none,2000-01-01\n"
    )
    drained = rules.filter(pl.col("action") == "drain_node").height
    with new_store("policies") as store:
        assert store.connection.execute(count).fetchone() == (rules.height, drained)
        list(ingest(store, CATALOG, "xid_policy", [own], {}, {}, EPOCH))
        assert store.connection.execute(count).fetchone() == (rules.height, drained + 1)
