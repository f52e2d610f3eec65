"""A store that an older version wrote, with fewer columns and tables, is read, added to and built upon."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl

from fleetmark.catalog import Catalog, load_catalog
from fleetmark.pipeline.build import build
from fleetmark.pipeline.detect import detect
from fleetmark.pipeline.run import ingest
from fleetmark.query.snapshot import read_snapshot
from fleetmark.store import Store
from fleetmark.table import Table
from fleetmark.testing import EPOCH, differences
from fleetmark.upkeep.backup import back_up
from fleetmark.upkeep.doctor import examine
from fleetmark.upkeep.tend import tend
from tests.access_line import access_lines

ALL = load_catalog()
# Came with a later version: a model's table and two of the core's.
LATER = {"principal_trait_day", "contract_profile", "contract_result"}


def small() -> Catalog:
    """The access log, what principal_trait_day rests on, and one detector."""
    models, waiting = {}, ["principal_trait_day"]
    while waiting:
        model = ALL.models[waiting.pop()]
        models[model.name] = model
        waiting += [name for name in model.inputs if name in ALL.models]
    detectors = {"uncovered_coverage": ALL.detectors["uncovered_coverage"]}
    own = {"ingest_file", "reject", "pull_range", "stream_position", "object_seen", "finding",
           "detector_status", "alert_delivery", "contract_profile", "contract_result"}  # fmt: skip
    read = {i for m in (*models.values(), *(d.model for d in detectors.values())) for i in m.inputs}
    names = own | models.keys() | read | {"storage_access"}
    tables = {name: ALL.tables[name] for name in sorted(names)}
    return Catalog({"s3_access": ALL.sources["s3_access"]}, models, detectors, tables)


def older(table: Table) -> Table:
    """The contract without its first column that may be NULL and that no rule of the table names."""
    held = {
        *table.grain,
        *table.sort,
        *table.latest,
        *table.partition,
        table.time,
        table.end,
        table.observed,
    }
    free = [c for c in table.columns if c.null and c.name not in held]
    return replace(table, columns=tuple(c for c in table.columns if c not in free[:1]))


def write_older(root: Path, catalog: Catalog, log: Path) -> set[str]:
    """As an older version would have read `log`; the columns of storage_access that it did not have."""
    then = {name: older(table) for name, table in catalog.tables.items() if name not in LATER}
    with Store(root.with_name("now"), memory_mb=256) as now, Store(root, memory_mb=256) as store:
        now.ensure(catalog.tables.values())
        list(ingest(now, catalog, "s3_access", [log], {}, {}, EPOCH))
        store.ensure(then.values())
        for name in ("storage_access", "ingest_file", "meta.partition_change"):
            rows = now.connection.execute(f"FROM lake.{name}").pl()
            if name in then:
                rows = rows.select(then[name].column_names)
            store.connection.register("written", rows.to_arrow())
            store.connection.execute(f"INSERT INTO lake.{name} BY NAME FROM written")
    access = catalog.tables["storage_access"]
    return {*access.column_names} - {*then["storage_access"].column_names}


def test_an_older_store_goes_on(new_store: Callable[[str], Store], tmp_path: Path) -> None:
    catalog, root = small(), tmp_path / "old"
    first, second = tmp_path / "first.log", tmp_path / "second.log"
    first.write_text(access_lines(0, 5))
    second.write_text(access_lines(5, 9))
    (added,) = write_older(root, catalog, first)
    with Store(root, read_only=True) as reader:  # nothing has adapted it yet
        snapshot = read_snapshot(reader, catalog.tables.values())
        for name, table in catalog.tables.items():
            seen = reader.connection.execute(snapshot.view(name).sql).pl()
            assert seen.columns == list(table.column_names)
            assert seen.height == {"storage_access": 5, "ingest_file": 1}.get(name, 0)
    with Store(root, memory_mb=256) as store, new_store("fresh") as fresh:
        store.ensure(catalog.tables.values())
        for one, state in ((store, "unchanged"), (fresh, "read")):
            reports = ingest(one, catalog, "s3_access", [first, second], {}, {}, EPOCH)
            assert [report.state for report in reports] == [state, "read"]
            build(one, catalog, {})
            detect(one, catalog, {}, EPOCH)
        for name in ("storage_access", "principal_trait_day", "detector_status"):
            columns = [
                c.name for c in catalog.tables[name].columns if not c.volatile and c.name != added
            ]
            got, want = (rows(one, name).select(columns) for one in (store, fresh))
            assert got.height
            assert differences(got, want, 1e-9) == [], name
        assert rows(store, "storage_access")[added].null_count() >= 5
        assert [c for c in examine(store, catalog, EPOCH) if c.state == "bad"] == []
        tend(store, catalog, {}, EPOCH)
        back_up(store, tmp_path / "copy")


def rows(store: Store, name: str) -> pl.DataFrame:
    return store.connection.execute(f"FROM lake.{name}").pl()
