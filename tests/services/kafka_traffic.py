"""Numbered messages sent to a broker from a process of their own.

Kafka-python's producer forgets the sockets of a broker that is killed; whoever holds the test's process to
account for open sockets would find them there.
"""

from __future__ import annotations

import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event

from kafka import KafkaProducer

from tests.access_line import access_line

# Of the time in the lines; they are sent ten times as fast.
LINES_PER_S = 20


class Traffic:
    """Sends lines of `access_line` at a steady rate until stopped, at least `least`."""

    def __init__(self, address: str, least: int) -> None:
        context = get_context("spawn")
        self._done = context.Event()
        self._sent, sending = context.Pipe(duplex=False)
        self._process = context.Process(
            target=_send, args=(address, least, self._done, sending), daemon=True
        )
        self._process.start()

    def stop(self, timeout_s: float) -> list[int]:
        """The numbers that the broker confirmed, in order; TimeoutError when it still waits for some."""
        self._done.set()
        if not self._sent.poll(timeout_s):
            self._process.kill()
            raise TimeoutError(f"the broker has not confirmed everything in {timeout_s:.0f} s")
        sent: list[int] = self._sent.recv()
        self._process.join(60)
        self._process.close()
        return sent


def _send(address: str, least: int, done: Event, answer: Connection) -> None:
    # Idempotent, with retries for as long as a broker may be away: what it confirms is there once.
    producer = KafkaProducer(
        bootstrap_servers=address, delivery_timeout_ms=120_000, retry_backoff_ms=100,
        reconnect_backoff_max_ms=500,
    )  # fmt: skip
    sent: set[int] = set()
    number = 0
    while number < least or not done.is_set():
        for _ in range(LINES_PER_S):
            future = producer.send("access", _line(number), key=str(number % 50).encode())
            future.add_callback(lambda _, n=number: sent.add(n))
            number += 1
        time.sleep(0.1)
    producer.flush(120)
    producer.close()
    answer.send(sorted(sent))


def _line(number: int) -> bytes:
    at = number // LINES_PER_S
    return access_line(number, minute=at // 60 % 60, second=at % 60).encode()
