"""Messages of a stream into tables: rows, rejects and the position reached, in one transaction.

The position in the store is the only one that counts. A batch says where it believes its partitions
stand; when another process has moved one since, nothing of the batch is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime

import polars as pl

from fleetmark.errors import SupersededError
from fleetmark.pipeline import write
from fleetmark.pipeline.messages import Messages, Part, file_id, parse_messages
from fleetmark.source import Source
from fleetmark.store import Store
from fleetmark.store_tables import REJECT, STREAM_POSITION
from fleetmark.table import quote


@dataclass
class Position:
    """A row of `stream_position`, counting while messages are written."""

    input: str
    topic: str
    partition: int
    source: str
    file_id: str
    next_offset: int = 0
    message_count: int = 0
    row_count: int = 0
    repeat_count: int = 0
    reject_count: int = 0
    skipped_count: int = 0
    lost_count: int = 0
    committed_at: datetime | None = None


def positions(store: Store, name: str) -> dict[tuple[str, int], Position]:
    """Where the partitions of an input stand."""
    columns = STREAM_POSITION.column_names
    rows = store.connection.execute(
        f"SELECT {', '.join(map(quote, columns))} FROM lake.stream_position WHERE input = $1",
        [name],
    ).fetchall()
    found = [Position(**dict(zip(columns, row, strict=True))) for row in rows]
    return {(p.topic, p.partition): p for p in found}


def write_messages(
    store: Store,
    source: Source,
    options: Mapping[str, str],
    name: str,
    batches: Sequence[Messages],
    now: datetime,
) -> int:
    """Write what the messages of an input hold; return the rows added.

    Raises SupersededError, and writes nothing, when a partition does not stand at its `after`.
    """
    parsed = [parse_messages(source, options, name, batch) for batch in batches]

    def work() -> int:
        stored = positions(store, name)
        moved = [_moved(stored, source, name, batch, now) for batch in batches]
        rows = {
            table.name: write.insert(
                store, table.with_provenance(),
                pl.concat([p.rows[table.name] for p in parsed]),
            )
            for table in source.outputs
        }  # fmt: skip
        refused = write.insert(store, REJECT, pl.concat([p.rejects for p in parsed]))
        for position, part in zip(moved, parsed, strict=True):
            _count(position, part, rows, refused)
        _save(store, moved)
        return sum(frame.height for frame in rows.values())

    with write.one_thread(store):
        return store.commit(work)


def _moved(
    stored: Mapping[tuple[str, int], Position], source: Source, name: str, batch: Messages,
    now: datetime,
) -> Position:  # fmt: skip
    known = stored.get((batch.topic, batch.partition))
    stands = 0 if known is None else known.next_offset
    if stands != batch.after:
        raise SupersededError(
            f"{name}: {batch.topic}/{batch.partition} stands at {stands}, not at {batch.after}: "
            "another process reads it"
        )
    position = known or Position(
        name, batch.topic, batch.partition, source.name, file_id(name, batch.topic, batch.partition)
    )
    return replace(
        position, source=source.name, next_offset=batch.next_offset, committed_at=now,
        message_count=position.message_count + len(batch.messages) + len(batch.undecoded),
        lost_count=position.lost_count + batch.lost,
    )  # fmt: skip


def _count(
    position: Position, part: Part, added: Mapping[str, pl.DataFrame], refused: pl.DataFrame
) -> None:
    mine = pl.col("file_id") == position.file_id
    keys = ["file_id", "line_no", "reason"]
    offered = sum(rows.height for rows in part.rows.values())
    # Rows of this commit: what the partition gave before stands in the store, not in `added`.
    new = sum(rows.filter(mine).height for rows in added.values())
    position.row_count += new
    position.repeat_count += offered - new
    position.skipped_count += part.skipped
    position.reject_count += part.rejects.join(refused.select(keys), on=keys, how="semi").height


def _save(store: Store, moved: Sequence[Position]) -> None:
    """Replace these rows alone: a writer of other partitions must not conflict."""
    frame = pl.DataFrame(
        [asdict(p) for p in moved], schema=STREAM_POSITION.polars_schema(), orient="row"
    )
    write.copy_in(store, "reached", frame)
    store.connection.execute(
        "DELETE FROM lake.stream_position WHERE (input, topic, partition) IN "
        "(SELECT (input, topic, partition) FROM reached)"
    )
    store.connection.execute("INSERT INTO lake.stream_position BY NAME FROM reached")
