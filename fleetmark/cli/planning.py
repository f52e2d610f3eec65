"""Commands for planners: capacity, sizing."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from fleetmark.cli.data import pairs
from fleetmark.cli.shell import (
    command,
    config_option,
    json_option,
    log,
    open_store,
    settings_of,
    show,
    store_option,
)
from fleetmark.errors import InputError


@command
@click.option("--cluster", required=True, help="Whose arrivals.")
@click.option("--gpus", "sizes", multiple=True, required=True, metavar="N|+K|-K",
              help="GPUs to replay on: a number, or a change of today's. Repeat it.")  # fmt: skip
@click.option("--from", "start", type=click.DateTime(["%Y-%m-%d"]), help="First UTC day.")
@click.option("--to", "end", type=click.DateTime(["%Y-%m-%d"]), help="UTC day after the last.")
@click.option("--partition", help="Only attempts of this partition; state its GPUs with --today.")
@click.option(
    "--today", type=click.IntRange(1), help="GPUs there were. Default: those of node_known."
)
@click.option("--gpus-per-node", default=8, show_default=True, type=click.IntRange(0),
              help="GPUs of a node, which smaller jobs do not cross; 0: one pool.")  # fmt: skip
@click.option("--queue-limit", "stated", multiple=True, metavar="QUEUE=GPUS",
              help="GPUs an account or queue may hold; over those that records state.")  # fmt: skip
@click.option("--max-error", default=0.2, show_default=True, type=click.FloatRange(0),
              help="Largest error of today's replayed waits with which a forecast is given.")  # fmt: skip
@store_option
@config_option
@json_option
def capacity(
    cluster: str, sizes: tuple[str, ...], start: datetime | None, end: datetime | None,
    partition: str | None, today: int | None, gpus_per_node: int, stated: tuple[str, ...],
    max_error: float, store: Path | None, config: Path | None, json: bool,
) -> int:  # fmt: skip
    """Replay recorded arrivals on more or fewer GPUs, and say how long jobs would have waited.

    First come first served with backfill, whole gangs, limits of accounts and queues. The first row is today: unless
    the replay reproduces the recorded waits there, forecasts are refused, with the reason. Run `fleetmark build`
    before. For example: fleetmark capacity --cluster alpha --gpus +64 --gpus -128. Exit code 1 when refused.
    """
    from fleetmark.capacity import RESULT_COLUMNS, Limits
    from fleetmark.capacity.stored import Question, answer

    limits = {name: _count(gpus, f"--queue-limit {name}") for name, gpus in pairs(stated, "--queue-limit").items()}  # fmt: skip
    question = Question(cluster, partition, start, end, today, gpus_per_node, limits)
    with open_store(settings_of(config, store)) as opened:
        found = answer(opened, question, [_size(text) for text in sizes], Limits(max_error))
    show([column.name for column in RESULT_COLUMNS], found.rows(), json=json)
    return 1 if "refused" in found["verdict"].to_list() else 0


def _size(text: str) -> tuple[bool, int]:
    """Whether it is a change, and the number."""
    return text[:1] in ("+", "-"), _count(text, "--gpus")


def _count(text: str, option: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InputError(f"{option} {text}: write a whole number of GPUs") from None


@command
@click.option("--gpus", default=1_000, show_default=True, type=click.IntRange(1))
@click.option("--interval-s", default=15.0, show_default=True, type=click.FloatRange(0.1),
              help="Seconds between two scrapes of a GPU.")  # fmt: skip
@click.option("--fields", default=20, show_default=True, type=click.IntRange(1),
              help="Fields that the exporter gives of a GPU.")  # fmt: skip
@click.option("--access-lines-s", default=10.0, show_default=True, type=click.FloatRange(0),
              help="Lines of storage access logs a second.")  # fmt: skip
@click.option("--jobs-day", default=1_000, show_default=True, type=click.IntRange(0),
              help="Accounting rows a day.")  # fmt: skip
@click.option("--retention-days", default=90, show_default=True, type=click.IntRange(1))
@json_option
def sizing(
    gpus: int, interval_s: float, fields: int, access_lines_s: float, jobs_day: int,
    retention_days: int, json: bool,
) -> None:  # fmt: skip
    """Say what a fleet needs: samples, bytes, cores, memory, and what reaches its limit first.

    Nothing is measured now: rates are the committed results of `python -m fleetmark.benchmarks`, and each line
    names the workload and the day of its rate. See docs/scaling.md.
    """
    from dataclasses import astuple

    from fleetmark.sizing import Fleet, Line, Rates, limits, sums

    fleet = Fleet(gpus, interval_s, fields, access_lines_s, jobs_day, retention_days)
    rates = Rates.committed()
    lines = sums(rates, fleet)
    show(tuple(Line.__slots__), [astuple(line) for line in lines], json=json)
    log(f"what breaks first: {limits(rates, fleet)[0].part}; docs/scaling.md says what to do")
