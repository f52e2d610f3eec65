"""Messages of a stream: rows and positions in one transaction, whatever a message holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition

from fleetmark.catalog import load_catalog
from fleetmark.errors import SupersededError
from fleetmark.live import consume
from fleetmark.live.inputs import Kafka
from fleetmark.pipeline.messages import Messages, lines_of
from fleetmark.pipeline.stream import positions, write_messages
from fleetmark.settings import Settings
from fleetmark.store import Store
from fleetmark.testing import EPOCH
from tests.access_line import access_line


def message(number: int) -> bytes:
    return access_line(number).encode()


def batch(start: int, *contents: bytes, after: int | None = None) -> Messages:
    numbered = [(start + n, content) for n, content in enumerate(contents)]
    return Messages("access", 0, start if after is None else after, start + len(contents), numbered)


def rows(store: Store, sql: str) -> list[tuple[object, ...]]:
    found: list[tuple[object, ...]] = store.connection.execute(sql).fetchall()
    return found


@pytest.fixture
def write(new_store: Callable[[str], Store]) -> Callable[[Messages], int]:
    store = new_store("streamed")

    def run(messages: Messages, source: str = "s3_access") -> int:
        return write_messages(store, load_catalog().sources[source], {}, "in", [messages], EPOCH)

    run.store = store  # type: ignore[attr-defined]
    return run


def test_every_message_is_a_row_or_a_reject(write: Callable[[Messages], int]) -> None:
    store: Store = write.store  # type: ignore[attr-defined]
    several = message(1) + b"\r\n" + message(2) + b"\n"
    added = write(batch(0, several, b"no access line", b"\xff\xfe", b" ", message(3), b"a\0b"))
    assert added == 3
    assert rows(store, "SELECT request_id, line_no FROM lake.storage_access ORDER BY ALL") == [
        ("R000001", 1), ("R000002", 1), ("R000003", 5)
    ]  # fmt: skip
    refused = rows(store, "SELECT line_no, left(reason, 22) FROM lake.reject ORDER BY ALL")
    assert refused == [
        (2, "not an S3 access line:"), (3, "not valid UTF-8"), (4, "the message is empty"),
        (6, "holds NUL bytes: binar"),
    ]  # fmt: skip
    (stands,) = positions(store, "in").values()
    assert (stands.next_offset, stands.message_count, stands.row_count) == (6, 6, 3)
    assert (stands.reject_count, stands.repeat_count, stands.lost_count) == (4, 0, 0)


def test_the_same_messages_again_write_nothing(write: Callable[[Messages], int]) -> None:
    store: Store = write.store  # type: ignore[attr-defined]
    write(batch(0, message(1), message(2)))
    with pytest.raises(SupersededError, match="stands at 2, not at 0"):
        write(batch(0, message(1), message(2)))
    assert write(batch(2, message(2), message(3))) == 1  # sent again by the producer
    assert rows(store, "SELECT count(*) FROM lake.storage_access") == [(3,)]
    (stands,) = positions(store, "in").values()
    assert (stands.message_count, stands.row_count, stands.repeat_count) == (4, 3, 1)


def test_what_left_the_topic_unread_is_said(write: Callable[[Messages], int]) -> None:
    store: Store = write.store  # type: ignore[attr-defined]
    write(batch(0, message(1)))
    write(replace(batch(9, message(2), after=1), lost=8))
    assert rows(store, "SELECT line_no, reason FROM lake.reject") == [
        (2, "8 messages had left the topic before they were read")
    ]
    (stands,) = positions(store, "in").values()
    assert (stands.next_offset, stands.lost_count, stands.reject_count) == (10, 8, 1)


def test_json_arrays_and_objects_over_several_lines() -> None:
    """As the sources see them: one line for each record."""
    record = '{{\n "n": {0}, "text": "a\\nb"}}'
    array = f"[{record.format(1)}, {record.format(2)}]".encode()
    lines, _ = lines_of(
        batch(0, array, record.format(3).encode(), b"[12.5] kernel line", b'{"n":4}\n{"n":5}')
    )
    assert lines.rows() == [
        (1, '{"n":1,"text":"a\\nb"}'), (1, '{"n":2,"text":"a\\nb"}'), (2, '{"n":3,"text":"a\\nb"}'),
        (3, "[12.5] kernel line"), (4, '{"n":4}'), (4, '{"n":5}'),
    ]  # fmt: skip


class Broker:
    """What the consumer asks of kafka-python, for a topic of one message."""

    def __init__(self, **_: object) -> None:
        self.place = TopicPartition("access", 0)
        record = SimpleNamespace(offset=0, value=message(1))
        self.answers: list[dict[TopicPartition, list[Any]]] = [{}, {self.place: [record]}]

    def subscribe(self, _: list[str], listener: consume.Consumer) -> None:
        listener.on_partitions_assigned([self.place])

    def poll(self, **_: int) -> dict[TopicPartition, list[Any]]:
        return self.answers.pop(0) if self.answers else {}

    def beginning_offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, 0)

    def end_offsets(self, places: list[TopicPartition], **_: int) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, 1)

    def seek(self, *_: object) -> None: ...
    def position(self, _: TopicPartition) -> int:
        return 1

    def highwater(self, _: TopicPartition) -> int:
        return 1

    def commit_async(self, _: object) -> None: ...
    def close(self, **_: object) -> None: ...


def test_a_stream_has_the_options_of_its_source_as_files_have(
    new_store: Callable[[str], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consume, "KafkaConsumer", Broker)
    source = load_catalog().sources["s3_access"]
    settings = Settings(sources={"s3_access": {"cluster": "of the section"}})
    for name, stated in (("plain", {}), ("own", {"cluster": "its own"})):
        one = Kafka(
            name=name, source="s3_access", brokers=["b:1"], topics=["access"],
            options=stated, interval_s=0.1,
        )  # fmt: skip
        with new_store(name) as store:
            with consume.Consumer(one, source, store, lambda: EPOCH, settings) as consumer:
                assert any(consumer.batch().rows == 1 for _ in range(3))
            assert rows(store, "SELECT cluster FROM lake.storage_access") == [
                (stated.get("cluster", "of the section"),)
            ]
