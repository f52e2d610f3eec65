"""Builds after rows came late, again, in any order and in any number of parts give what one full build gives."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetmark.catalog import Catalog, load_catalog
from fleetmark.pipeline import commit as commit_module
from fleetmark.pipeline import lines as lines_module
from fleetmark.pipeline import write
from fleetmark.pipeline.build import build
from fleetmark.pipeline.run import ingest
from fleetmark.store import Store
from fleetmark.testing import EPOCH, cases_of, complete, differences, read_rows
from fleetmark.upkeep.tend import tend
from tests.small_catalog import part_of_the_catalog

ALL = load_catalog()
AUDIT = Path(__file__).parent / "cases/sources/kubernetes_audit/constructed/input.log"
CASES = Path(__file__).parent / "cases"
Rows = Mapping[str, pl.DataFrame]
# Models with everything they rest on, and the cases whose rows of sources' tables they are given: months and
# tables without time, intervals that stay open, lookbacks of minutes, days and half a year.
CHAINS = {
    "nodes": (
        ("node_availability",),
        ("node_outage/records_join", "node_known/three_records", "inventory_gpu_span/moved_while_the_old_entry_is_open"),
    ),
    "capacity": (
        ("node_capacity_day", "free_node_level"),
        ("node_service/events_observations_inventory", "free_node_level/nodes_fill_and_close"),
    ),
    "jobs": (
        ("queue_wait", "objective_burn", "expected_run_day"),
        ("objective_burn/wait_and_completion", "job_wait/every_outcome", "job/id_used_again"),
    ),
    "storage": (
        ("principal_novelty_day", "scheduler_user"),
        ("principal_trait_day/networks_clients_keys_families", "scheduler_user/each_user_once"),
    ),
    "telemetry": (
        ("gpu_throttle_hour", "gpu_signal_hour"),
        ("gpu_minute/over_midnight", "gpu_minute/two_gpus_with_gap_reset_and_missing_value",
         "gpu_minute/spikes_falls_and_bits_together"),
    ),
    "training": (
        ("train_progress_day", "train_span"),
        ("train_step_run/two_nodes_and_a_restart", "train_span/a_night_with_a_restart", "job/slurm_real"),
    ),
}  # fmt: skip


def catalog_of(targets: Iterable[str], *, alone: bool = False) -> Catalog:
    """The targets with every model they rest on, or `alone`: their inputs are given."""
    names = set(targets)
    models = {n: ALL.models[n] for n in names} if alone else part_of_the_catalog(*names).models
    tables = {i for m in models.values() for i in m.inputs} | models.keys()
    return Catalog({}, models, {}, {name: ALL.tables[name] for name in sorted(tables)})


def rows_of(catalog: Catalog, folders: Iterable[Path]) -> dict[str, pl.DataFrame]:
    """Rows that the cases give of tables that no model of the catalog writes, each grain once."""
    found: dict[str, pl.DataFrame] = {}
    for path in sorted(p for folder in folders for p in folder.glob("*.csv")):
        if path.stem in catalog.models or path.stem not in catalog.tables:
            continue
        table = catalog.tables[path.stem]
        rows = complete(table, read_rows(path, table))
        earlier = [found[table.name]] if table.name in found else []
        found[table.name] = pl.concat([*earlier, rows]).unique(
            subset=list(table.grain), keep="first", maintain_order=True
        )
    return {name: _placed(frame) for name, frame in found.items()}


def _placed(rows: pl.DataFrame) -> pl.DataFrame:
    if "file_id" not in rows.columns:
        return rows
    return rows.with_columns(file_id=pl.lit("f"), line_no=pl.int_range(pl.len(), dtype=pl.Int64))


def parts_of(rows: Rows, count: int, chance: random.Random) -> list[Rows]:
    """The rows dealt out at random, shuffled; a third of those already dealt come again."""
    parts: list[dict[str, pl.DataFrame]] = [{} for _ in range(count)]
    for name, frame in rows.items():
        order = chance.sample(range(frame.height), frame.height)
        dealt = [chance.randrange(count) for _ in order]
        for number, part in enumerate(parts):
            taken = [
                row for row, first in zip(order, dealt, strict=True)
                if first == number or (first < number and chance.random() < 1 / 3)
            ]  # fmt: skip
            part[name] = frame[taken]
    return list(parts)


def built(root: Path, catalog: Catalog, parts: Iterable[Rows]) -> dict[str, pl.DataFrame]:
    """Each part written and built upon; the models' tables, after which nothing is left to compute."""
    with Store(root, memory_mb=256) as store:
        store.ensure(catalog.tables.values())
        for part in parts:

            def work(part: Rows = part) -> None:
                for name, rows in part.items():
                    write.insert(store, catalog.tables[name], rows)

            store.commit(work)
            build(store, catalog, {})
        tend(store, catalog, {}, EPOCH)
        assert [one for one in build(store, catalog, {}) if one.ranges] == []
        tables = {
            name: store.connection.execute(f"FROM lake.{name}").pl() for name in catalog.models
        }
    shutil.rmtree(root)
    return tables


def check_chain(name: str, examples: int, folder: Path) -> None:
    """Hypothesis deals the rows out, `examples` times, and one full build is compared with each."""
    targets, cases = CHAINS[name]
    catalog = catalog_of(targets)
    rows = rows_of(catalog, (CASES / "models" / case for case in cases))
    whole = built(folder / "full", catalog, [rows])
    assert all(whole[target].height for target in targets)

    @settings(max_examples=examples, deadline=None, database=None)
    @given(chance=st.randoms(use_true_random=True), count=st.integers(2, 4))
    def same(chance: random.Random, count: int) -> None:
        parts = parts_of(rows, count, chance)
        got = built(folder / "parts", catalog, parts)
        assert [w for m in whole for w in differences(got[m], whole[m], 1e-6)] == []

    same()


@pytest.mark.parametrize("name", ["nodes", "telemetry"])
def test_any_order_and_split_gives_a_full_build(name: str, tmp_path: Path) -> None:
    check_chain(name, 1, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", CHAINS)
def test_many_orders_and_splits_of_every_chain(name: str, tmp_path: Path) -> None:
    check_chain(name, 20, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", ALL.models)
def test_each_model_by_itself(name: str, tmp_path: Path) -> None:
    """Its inputs, whoever writes them, arrive in three parts."""
    catalog = catalog_of([name], alone=True)
    for number, case in enumerate(cases_of(CASES, "models", name)):
        rows = rows_of(catalog, [case.folder])
        (whole,) = built(tmp_path / "full", catalog, [rows]).values()
        parts = parts_of(rows, 3, random.Random(number))  # noqa: S311 - a shuffle
        (got,) = built(tmp_path / "parts", catalog, parts).values()
        assert differences(got, whole, 1e-6) == [], case.name


def test_a_file_counts_the_same_however_it_is_cut(
    new_store: Callable[[str], Store], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record takes the place of an earlier one of the same request, in one commit or in two."""
    others = AUDIT.read_bytes().splitlines(keepends=True)
    first, last = (
        others[0].replace(b"RequestReceived", stage).replace(b":09.1", at).replace(b"a2", b"z1")
        for stage, at in ((b"ResponseStarted", b":09.2"), (b"ResponseComplete", b":40.0"))
    )
    lines = [first, *others, last]
    path = tmp_path / "audit.log"
    counted = set()
    for chunk, cuts in ((1 << 24, []), (2000, [10, 49])):
        monkeypatch.setattr(lines_module, "CHUNK_BYTES", chunk)
        monkeypatch.setattr(commit_module, "BATCH_BYTES", chunk)
        with new_store(f"cut{chunk}") as store:
            for upto in (*cuts, len(lines)):
                path.write_bytes(b"".join(lines[:upto]).rstrip(b"\n"))
                list(ingest(store, ALL, "kubernetes_audit", [path], {}, {}, EPOCH))
            counted |= set(
                store.connection.execute(
                    "SELECT row_count, repeat_count, reject_count, skipped_count, "
                    "(SELECT count(*) FROM lake.storage_event) "
                    "FROM lake.ingest_file WHERE source = 'kubernetes_audit'"
                ).fetchall()
            )
    ((rows, repeats, _, _, stored),) = counted
    assert rows == stored
    assert repeats == 2
