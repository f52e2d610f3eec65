"""Profile, judge, store: what `fleetmark contracts` does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import polars as pl

from fleetmark.catalog import Catalog
from fleetmark.contracts.judge import Judge
from fleetmark.contracts.profile import HOUR, SETTLE, USUAL, By, Window, profile
from fleetmark.contracts.suite import asked_of, check_written, crossing, suite, written
from fleetmark.contracts.usual import against_usual
from fleetmark.pipeline import write
from fleetmark.store import Store
from fleetmark.store_tables import CONTRACT_PROFILE, CONTRACT_RESULT, OPERATIONAL
from fleetmark.table import Table, quote

SCOPE = ("table_name", "source", "scope")
_PAST = datetime(1970, 1, 1)  # noqa: DTZ001 - UTC without zone


@dataclass(frozen=True, slots=True)
class Checked:
    """What was judged: rows of `contract_result`, and where the docs are."""

    results: pl.DataFrame
    table_count: int
    docs: Path | None

    @property
    def failed(self) -> pl.DataFrame:
        """Expectations that were not met, the worst first."""
        return self.results.filter(~pl.col("success")).sort(
            "severity", "table_name", "source", "scope", "expectation"
        )

    @property
    def fine(self) -> bool:
        """No rows break their contract; there may be warnings."""
        return self.failed.filter(pl.col("severity") == "error").is_empty()


def check(
    store: Store,
    catalog: Catalog,
    tables: Sequence[Table],
    by: By,
    start: datetime | None,
    now: datetime,
    docs: Path | None = None,
) -> Checked:
    """Judge what was not judged yet (or everything from `start` on) and store profiles and results.

    `tables`: empty for all that have rows. Raises InputError when Great Expectations is not there.
    """
    check_written(written(), catalog)
    judge = Judge()
    profiles: list[pl.DataFrame] = []
    asked: dict[str, pl.DataFrame] = {}
    for table in tables or _stored(store, catalog, by):
        window = _window(store, table, by, start, now)
        if window.start >= window.end:
            continue
        profiled = _profiled(store, table, window, [one.measure for one in suite(table)])
        if not profiled.is_empty():
            kept = [c for c in CONTRACT_PROFILE.column_names if c in profiled.columns]
            profiles.append(profiled.select(pl.lit(table.name).alias("table_name"), *kept))
            asked[table.name] = asked_of(table, profiled, by_measure=docs is not None)
    # People read a suite for each table; without them one for all costs a tenth.
    suites = asked if docs is not None or not asked else {"tables": pl.concat(asked.values())}
    empty = CONTRACT_RESULT.empty().drop("judged_at")
    results = pl.concat([
        empty,
        *(
            one.with_columns(judge.judge(name, one)).select(empty.columns)
            for name, one in suites.items()
        ),
    ])  # fmt: skip
    if profiles:
        _record(store, pl.concat(profiles, how="diagonal_relaxed"), results, now)
    page = judge.write_docs(docs) if docs is not None and asked else None
    return Checked(results, len(profiles), page)


def _stored(store: Store, catalog: Catalog, by: By) -> list[Table]:
    """Tables with rows that people or sources write: not what the core keeps for itself."""
    own = {table.name for table in OPERATIONAL}
    names = sorted((store.with_files() & catalog.tables.keys()) - own)
    found = [catalog.tables[name] for name in names]
    return [table for table in found if by == "hour" or "file_id" in table.column_names]


def _window(store: Store, table: Table, by: By, start: datetime | None, now: datetime) -> Window:
    """From `start`, else on from the last judgement, else a week back from the last row (all files)."""
    if by == "file":
        judged = _value(
            store, "SELECT max(judged_at) FROM lake.contract_profile "
            "WHERE table_name = $1 AND scope_kind = 'file'", [table.name],
        )  # fmt: skip
        return Window(by, start or judged or _PAST, now)
    end = (now - SETTLE).replace(minute=0, second=0, microsecond=0)
    if start is None and table.time is not None:
        last = _value(
            store, "SELECT max(start_ts) FROM lake.contract_profile "
            "WHERE table_name = $1 AND scope_kind = 'hour'", [table.name],
        )  # fmt: skip
        if last is not None:
            return Window(by, last + HOUR, end)
        newest = _value(store, f"SELECT max({quote(table.time)}) FROM lake.{quote(table.name)}", [])
        start = newest - USUAL if newest else None
    return Window(by, (start or _PAST).replace(minute=0, second=0, microsecond=0), end)


def _value(store: Store, sql: str, values: list[str]) -> datetime | None:
    row = store.connection.execute(sql, values).fetchone()
    return row[0] if row else None


def _profiled(store: Store, table: Table, window: Window, asked: Sequence[str]) -> pl.DataFrame:
    profiled = profile(store, table, window, asked)
    if window.by == "file" or table.time is None:
        return profiled
    profiled = against_usual(store, table, profiled, window)
    for one in crossing(table):
        value = store.connection.execute(one.sql, {"start": window.start, "end": window.end}).pl()
        by_hour = value.rename({"value": one.measure})
        profiled = profiled.join(by_hour, on="start_ts", how="left", maintain_order="left")
    return profiled


def _record(store: Store, profiles: pl.DataFrame, results: pl.DataFrame, now: datetime) -> None:
    """Replace what was judged of these scopes before, in one transaction."""
    rows = {CONTRACT_PROFILE: profiles, CONTRACT_RESULT: results}
    scopes = profiles.select(*SCOPE)
    same = " AND ".join(f"t.{name} = s.{name}" for name in SCOPE)

    def work() -> None:
        write.copy_in(store, "scopes", scopes)
        for target, frame in rows.items():
            store.connection.execute(
                f"DELETE FROM lake.{target.name} AS t USING scopes AS s WHERE {same}"
            )
            with write.showing(
                store, "arriving", frame.with_columns(pl.lit(now).alias("judged_at"))
            ):
                store.connection.execute(f"INSERT INTO lake.{target.name} BY NAME FROM arriving")

    store.commit(work)
