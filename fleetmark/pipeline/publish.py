"""Publish a computed range: audit it against the contract, compare, write only days that differ."""

from __future__ import annotations

from datetime import date

import duckdb

from fleetmark.errors import ContractError
from fleetmark.pipeline.write import changed_days, log_days
from fleetmark.store import Store
from fleetmark.table import Table, literal, quote


def content_sql(table: Table) -> str:
    """An aggregate that tells the content of rows whatever their order.

    Bookkeeping columns are left out. DOUBLE is compared in single precision: sums over many
    threads may differ in the last bits.
    """
    parts = [
        f"{quote(c.name)}::FLOAT" if c.type == "DOUBLE" else quote(c.name)
        for c in table.columns
        if not c.volatile
    ]
    return f"coalesce(sum(hash({', '.join(parts)})::HUGEINT), 0)"


def publish(
    store: Store,
    table: Table,
    computed: duckdb.DuckDBPyRelation,
    part: tuple[date, date] | None,
    owner: str | None = None,
) -> int:
    """Replace a range of `table` by computed rows; return how many days changed.

    `owner`: only rows of that detector are compared and replaced. Raises ContractError.
    """
    connection = store.connection
    names = ", ".join(quote(c) for c in table.column_names)
    inside = _inside(table, part, owner)
    # A relation's own query() makes a temporary view; any other view would be a write to a second
    # database, which a transaction on the lake may not do.
    computed.query(
        "computed",
        f"CREATE OR REPLACE TEMP TABLE result AS SELECT {names} FROM computed WHERE {inside}",
    )
    _audit(store, table)
    day = f"{quote(table.time)}::DATE" if table.time else "NULL::DATE"
    state = f"SELECT {day} AS day, count(*) AS n, {content_sql(table)} AS content"
    stale = connection.execute(
        f"WITH old AS ({state} FROM lake.{quote(table.name)} WHERE {inside} GROUP BY ALL), "
        f"new AS ({state} FROM result GROUP BY ALL) "
        "SELECT coalesce(old.day, new.day) FROM old FULL JOIN new "
        "ON old.day IS NOT DISTINCT FROM new.day "
        "WHERE old.n IS DISTINCT FROM new.n OR old.content IS DISTINCT FROM new.content"
    ).fetchall()
    if not stale:
        return 0
    days = ", ".join(literal(str(row[0])) for row in stale)
    touched = f"{inside} AND {day} IN ({days})" if table.time else inside
    times = [quote(c) for c in (table.time, table.end, table.observed) if c]
    spans = ", ".join(f"{c}::DATE::TIMESTAMP AS {c}" for c in times) or "NULL"
    before = connection.execute(
        f"SELECT DISTINCT {spans} FROM lake.{quote(table.name)} WHERE {touched}"
    ).pl()
    after = connection.execute(f"SELECT DISTINCT {spans} FROM result WHERE {touched}").pl()
    if not before.is_empty():
        connection.execute(f"DELETE FROM lake.{quote(table.name)} WHERE {touched}")
    connection.execute(
        f"INSERT INTO lake.{quote(table.name)} ({names}) SELECT {names} FROM result WHERE {touched}"
    )
    moved = {*changed_days(table, before), *changed_days(table, after)}
    log_days(store, [(table.name, "", d) for d in sorted(moved, key=str)])
    return len(stale)


def _inside(table: Table, part: tuple[date, date] | None, owner: str | None) -> str:
    conditions = ["true"]
    if owner is not None:
        conditions.append(f"detector = {literal(owner)}")
    if part is not None and table.time is not None:
        time = quote(table.time)
        conditions.append(f"{time} >= '{part[0]}'::TIMESTAMP AND {time} < '{part[1]}'::TIMESTAMP")
    return " AND ".join(conditions)


def _audit(store: Store, table: Table) -> None:
    """No NULL where the contract forbids it, no grain twice. Raises ContractError with samples."""
    empty = " OR ".join(f"{quote(c)} IS NULL" for c in table.required())
    sample = store.connection.execute(f"SELECT * FROM result WHERE {empty} LIMIT 3").fetchall()
    if sample:
        raise ContractError(
            f"{table.name}: NULL in one of {', '.join(table.required())}, for example {sample}"
        )
    grain = ", ".join(quote(c) for c in table.grain)
    twice = store.connection.execute(
        f"SELECT {grain}, count(*) FROM result GROUP BY {grain} HAVING count(*) > 1 LIMIT 3"
    ).fetchall()
    if twice:
        raise ContractError(
            f"{table.name}: more than one row for {', '.join(table.grain)}, for example {twice}"
        )
