"""Kafka topics into the store: offsets live in the lake, the broker's are only advisory.

Every batch commits with the offsets it reaches. After a rebalance the former owner's commit finds
that the offset has moved, writes nothing and seeks anew (docs/decisions/0030-offsets-in-the-lake.md).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from fleetmark.errors import ServiceUnreachableError, SupersededError
from fleetmark.live.decode import Decoded, decoder_of
from fleetmark.live.inputs import Kafka
from fleetmark.pipeline.messages import Messages
from fleetmark.pipeline.stream import positions, write_messages
from fleetmark.settings import Settings
from fleetmark.source import Source
from fleetmark.store import Store

if TYPE_CHECKING:
    from kafka.consumer.fetcher import ConsumerRecord

POLL_MS = 200
# One poll brings at most this many messages of all partitions.
POLL_MESSAGES = 5000
# A broker that answers at all does so within this.
ANSWER_MS = 10_000


@dataclass(frozen=True, slots=True)
class Consumed:
    """What one batch brought; `lag` counts messages that wait at the broker."""

    messages: int
    rows: int
    lag: int


@dataclass
class _Held:
    """What was fetched of a partition and is not written yet."""

    after: int
    next_offset: int
    lost: int = 0
    messages: list[tuple[int, bytes]] = field(default_factory=list)
    undecoded: list[tuple[int, str]] = field(default_factory=list)


class Consumer(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    """A member of the input's consumer group. Use as a context manager, in one thread."""

    def __init__(
        self, one: Kafka, source: Source, store: Store, clock: Callable[[], datetime],
        settings: Settings,
    ) -> None:  # fmt: skip
        self._input = one
        self._source = source
        self._options = settings.options(source.name, one.options)
        self._store = store
        self._clock = clock
        self._decode = decoder_of(one)
        self._held: dict[TopicPartition, _Held] = {}
        self._fresh: set[TopicPartition] = set()
        self._bytes = 0
        try:
            self._consumer = KafkaConsumer(**_broker(one, settings.environment))
        except KafkaError as error:
            raise ServiceUnreachableError(
                f"Kafka at {', '.join(one.brokers)} cannot be reached: {error}"
            ) from None
        self._consumer.subscribe(one.topics, listener=self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(KafkaError):
            self._consumer.close(autocommit=False)

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """What is not written yet is the next owner's."""
        for partition in revoked:
            self._held.pop(partition, None)
            self._fresh.discard(partition)

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """They are sought as soon as the callback is over, which must not ask the broker itself."""
        self._fresh |= set(assigned)

    def _seek(self, assigned: Iterable[TopicPartition]) -> None:
        stored = positions(self._store, self._input.name)
        wanted = list(assigned)
        first = self._consumer.beginning_offsets(wanted) if wanted else {}
        for partition in wanted:
            known = stored.get((partition.topic, partition.partition))
            after = known.next_offset if known else 0
            # What the broker has dropped meanwhile is lost, and said so; before the first look it is
            # only old.
            start = max(after, first[partition])
            lost = start - after if known else 0
            self._held[partition] = _Held(after, start, lost)
            self._consumer.seek(partition, start)

    def batch(self) -> Consumed:
        """Fetch for `interval_s` or until `batch_bytes` wait, write, and say what came.

        Raises ServiceUnreachableError while no broker answers, StoreError when the store refuses; either way
        nothing is lost: it is fetched again.
        """
        until = time.monotonic() + self._input.interval_s
        try:
            while time.monotonic() < until and self._bytes < self._input.batch_bytes:
                for partition, records in self._poll().items():
                    self._hold(partition, records)
            if not self._bytes:
                self._ask()
            return self._write()
        except KafkaError as error:
            raise ServiceUnreachableError(
                f"Kafka at {', '.join(self._input.brokers)}: {type(error).__name__}: {error}"
            ) from None

    def _ask(self) -> None:
        """A broker that is gone brings no messages and no error: only a question tells it from a quiet topic."""
        if self._held:
            self._consumer.end_offsets(list(self._held), timeout_ms=ANSWER_MS)
        else:
            self._consumer.bootstrap(timeout_ms=ANSWER_MS, refresh=True)

    def _poll(self) -> dict[TopicPartition, list[ConsumerRecord]]:
        found: dict[TopicPartition, list[ConsumerRecord]] = self._consumer.poll(
            timeout_ms=POLL_MS, max_records=POLL_MESSAGES
        )
        if not self._fresh:
            return found
        # Go on where the lake says, whatever the broker believes: what this poll brought of a new
        # partition may begin elsewhere.
        fresh, self._fresh = self._fresh, set()
        self._seek(fresh)
        return {p: records for p, records in found.items() if p not in fresh}

    def _hold(self, partition: TopicPartition, records: list[ConsumerRecord]) -> None:
        held = self._held[partition]
        for record in records:
            content = record.value or b""
            decoded: Decoded = self._decode(content) if content else content
            if isinstance(decoded, str):
                held.undecoded.append((record.offset, decoded))
            else:
                held.messages.append((record.offset, decoded))
            self._bytes += len(content)
        held.next_offset = self._consumer.position(partition)

    def _write(self) -> Consumed:
        moved = {p: h for p, h in self._held.items() if h.next_offset != h.after}
        batches = [
            Messages(p.topic, p.partition, h.after, h.next_offset, h.messages, h.lost, h.undecoded)
            for p, h in moved.items()
        ]
        rows = 0
        if batches:
            try:
                rows = write_messages(
                    self._store, self._source, self._options, self._input.name, batches,
                    self._clock(),
                )  # fmt: skip
            except BaseException as error:
                # Fenced, or the store refuses: what was fetched is fetched again from where it stands.
                self._bytes = 0
                self._seek(list(self._held))
                if not isinstance(error, SupersededError):
                    raise
                return Consumed(0, 0, self._lag())
        for partition, held in moved.items():
            self._held[partition] = _Held(held.next_offset, held.next_offset)
        self._bytes = 0
        with suppress(KafkaError):
            self._consumer.commit_async({
                p: OffsetAndMetadata(h.next_offset, "", -1) for p, h in moved.items()
            })  # fmt: skip
        return Consumed(sum(len(b.messages) + len(b.undecoded) for b in batches), rows, self._lag())

    def _lag(self) -> int:
        """Messages behind the last one the broker has told of."""
        behind = 0
        for partition, held in self._held.items():
            mark = self._consumer.highwater(partition)
            behind += max(0, mark - held.next_offset) if mark is not None else 0
        return behind


def _broker(one: Kafka, environment: Mapping[str, str]) -> dict[str, Any]:
    secured = {
        "ssl_cafile": one.ca_file or None,
        "sasl_mechanism": one.sasl_mechanism or ("PLAIN" if one.username else None),
        "sasl_plain_username": one.username or None,
        "sasl_plain_password": one.password.read(environment) if one.password else None,
    }
    return {
        "bootstrap_servers": one.brokers,
        "group_id": one.group,
        "client_id": f"fleetmark-{one.name}",
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        "isolation_level": "read_committed",
        "security_protocol": one.security_protocol,
        **{key: value for key, value in secured.items() if value is not None},
    }
