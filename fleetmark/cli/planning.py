"""Commands for planners: capacity."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from fleetmark.cli.data import pairs
from fleetmark.cli.shell import (
    command,
    config_option,
    json_option,
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
