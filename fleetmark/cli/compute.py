"""Commands that compute: build, detect, backtest, findings, accuracy, simulate."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import click

from fleetmark.cli.shell import (
    ProgressBar,
    command,
    config_option,
    json_option,
    log,
    now,
    open_store,
    settings_of,
    show,
    store_option,
)


@command
@click.option("--engine", default="local", show_default=True,
              metavar="local|processes[:N]|ray[:ADDRESS]",
              help="Where the work is done: in this process, in N of this machine, on a Ray cluster.")  # fmt: skip
@store_option
@config_option
@json_option
def build(engine: str, store: Path | None, config: Path | None, json: bool) -> None:
    """Compute the models whose inputs have changed."""
    from fleetmark.catalog import load_catalog
    from fleetmark.pipeline.build import build as run
    from fleetmark.pipeline.engine import LOCAL, workers_of
    from fleetmark.pipeline.spread import Site, build_spread

    settings = settings_of(config, store)
    catalog = load_catalog()
    with (
        open_store(settings, write=True) as opened,
        ProgressBar(len(catalog.models), "build") as on_step,
    ):
        if engine == LOCAL:
            built = run(opened, catalog, settings.params, lambda _: on_step(1))
        else:
            site = Site(settings.store, settings.lake, settings.memory_mb, threads=1)
            with workers_of(engine, site) as workers:
                built = build_spread(
                    opened, catalog, settings.params, workers, lambda _: on_step(1)
                )
    rows = [(b.name, b.ranges, b.changed_days) for b in built]
    show(("model", "ranges_computed", "days_changed"), rows, json=json)


@command
@click.argument("ids", nargs=-1, metavar="[ID…]")
@click.option("--webhook", metavar="URL", help="Also deliver new findings to this webhook.")
@store_option
@config_option
@json_option
def detect(
    ids: tuple[str, ...], webhook: str | None, store: Path | None, config: Path | None, json: bool
) -> int:
    """Run the detectors, and deliver findings to the webhooks of the settings."""
    from fleetmark.alerts import deliver
    from fleetmark.catalog import load_catalog
    from fleetmark.evidence import Ledger
    from fleetmark.pipeline.detect import detect as run
    from fleetmark.settings import webhook as checked

    settings = settings_of(config, store)
    channels = [*settings.webhooks, *([checked("webhook", webhook)] if webhook else [])]
    catalog = load_catalog()
    with open_store(settings, write=True) as opened:
        run(opened, catalog, settings.params, now(), ids)
        with Ledger.of(settings, now) as ledger:
            deliveries = deliver(opened, catalog, channels, now(), ledger)
        rows = opened.connection.execute(
            "SELECT detector, status, reason, finding_count FROM lake.detector_status ORDER BY ALL"
        ).fetchall()
    for sent in deliveries:
        why = f": {sent.error}; they wait for the next run" if sent.failed else ""
        log(f"{sent.channel}: {sent.delivered} delivered, {sent.failed} failed{why}")
    show(("detector", "status", "reason", "finding_count"), rows, json=json)
    return 1 if any(sent.failed for sent in deliveries) else 0


@command
@click.argument("subject", metavar="PRINCIPAL|CHECKPOINT")
@store_option
@config_option
@json_option
def incident(subject: str, store: Path | None, config: Path | None, json: bool) -> None:
    """What a responder needs about a principal, a checkpoint or a family, ready to hand over.

    Findings, reads by hour, changes, share of each checkpoint with bounds, who else shares address, key or
    checkpoint, jobs at stake, and what to revoke.
    """
    from fleetmark.incident_kit import COLUMNS, kit

    with open_store(settings_of(config, store)) as opened:
        show(COLUMNS, kit(opened, subject), json=json)


@command
@click.argument("rule")
@click.option("--policy", help="Act on this policy of xid_policy.")
@click.option("--set", "stated", multiple=True, metavar="[MODEL.]PARAM=VALUE",
              help="Change a parameter of the rule, or of a model it rests on.")  # fmt: skip
@click.option("--from", "start", type=click.DateTime(["%Y-%m-%d"]), help="First UTC day.")
@click.option("--to", "end", type=click.DateTime(["%Y-%m-%d"]), help="UTC day after the last.")
@click.option("--horizon-h", default=24, show_default=True, type=click.IntRange(1),
              help="Hours after a finding in which jobs and failures count.")  # fmt: skip
@click.option("--list", "listing", is_flag=True, help="Print the findings, not the comparison.")
@store_option
@config_option
@json_option
def backtest(
    rule: str, policy: str | None, stated: tuple[str, ...], start: datetime | None,
    end: datetime | None, horizon_h: int, listing: bool, store: Path | None, config: Path | None,
    json: bool,
) -> None:  # fmt: skip
    """Replay the detector RULE over the stored history, and compare with today's parameters.

    Nothing is written. With neither --policy nor --set it shows what today's rule finds, and what came
    of it: jobs at stake, and how long before a failure it was found.
    """
    from dataclasses import astuple, fields

    from fleetmark.catalog import load_catalog
    from fleetmark.pipeline import backtest as replay
    from fleetmark.pipeline.outcome import Flagged
    from fleetmark.pipeline.thresholds import parse

    settings = settings_of(config, store)
    catalog = load_catalog()
    changed = parse(catalog, rule, stated)
    for name, values in (replay.with_policy(catalog, rule, policy) if policy else {}).items():
        changed[name] = {**changed.get(name, {}), **values}
    period = (start.date() if start else None, end.date() if end else None)
    with open_store(settings) as opened:
        flagged = replay.backtest(opened, catalog, rule, settings.params, changed, period,
                                  timedelta(hours=horizon_h))  # fmt: skip
    if listing:
        show([f.name for f in fields(Flagged)], [astuple(f) for f in flagged], json=json)
        return
    rows = [astuple(line) for line in replay.summarise(flagged)]
    show([f.name for f in fields(replay.Compared)], rows, json=json)


@command
@click.option("--domain", type=click.Choice(["performance", "security"]))
@store_option
@config_option
@json_option
def findings(domain: str | None, store: Path | None, config: Path | None, json: bool) -> None:
    """List the findings, worst first; `--json` shows all of the evidence.

    `standing` is what people said of a finding (`fleetmark ingest verdict`), or `suppressed` where it is
    of registered work (`fleetmark ingest suppression`).
    """
    from json import loads

    from fleetmark.alerts.outbox import standings
    from fleetmark.catalog import load_catalog
    from fleetmark.detector import FINDING
    from fleetmark.summary import worst_first

    with open_store(settings_of(config, store)) as opened:
        rows = worst_first(opened, domain)
        standing = standings(opened, load_catalog())
    if json:
        show(FINDING.column_names, rows, json=True)
        return
    shown = ("finding_id", "severity", "detector", "kind", "detected_at", "cluster", "node", "gpu_uuid",
             "rank", "job_id", "principal", "checkpoint", "lower", "upper")  # fmt: skip
    # Keys that most evidence has: what `lower` and `upper` measure, what happened, what to do.
    explained = ("quantity", "cause", "action")
    picked = [FINDING.column_names.index(name) for name in shown]
    evidence = [loads(row[FINDING.column_names.index("evidence")]) for row in rows]
    show(
        (*shown, *explained, "standing"),
        [
            [
                *(row[n] for n in picked),
                *(why.get(key) for key in explained),
                standing.get(row[picked[0]]),
            ]
            for row, why in zip(rows, evidence, strict=True)
        ],
        json=False,
    )


@command
@click.argument("topic", required=False)
@click.option("--seed", default=1001, show_default=True, help="Never one used for tuning.")
@click.option("--write", is_flag=True, help="At full size, into docs/accuracy.md.")
@json_option
def accuracy(topic: str | None, seed: int, write: bool, json: bool) -> None:
    """Recompute the figures of TOPIC (gpu, rank, mfu, planner, security, speed) against the aims.

    `low` and `high` bound the figure with 95 % confidence. An aim is met only when the bound on the
    wrong side meets it, so a value that looks right on too few cases (`n`) does not.
    """
    from dataclasses import astuple, fields

    from fleetmark.accuracy import Figure, measure, write_page

    if write:
        write_page(topic, seed, now().date())
        return
    figures = measure(topic, seed)
    show([f.name for f in fields(Figure)], [astuple(f) for f in figures], json=json)


class Scenarios(click.Command):
    """`simulate --help` with a line for each scenario there is."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Imported here: other commands need no simulator."""
        del ctx
        from importlib import import_module

        with formatter.section("Scenarios"):
            formatter.write_dl(list(import_module("fleetmark.simulate").scenario_lines().items()))


@partial(command, cls=Scenarios)
@click.argument("scenario")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder to write.")
@click.option("--seed", default=1, show_default=True)
@click.option("--nodes", default=2, show_default=True, type=click.IntRange(1))
@click.option("--days", default=7, show_default=True, type=click.IntRange(1))
def simulate(scenario: str, out: Path, seed: int, nodes: int, days: int) -> None:
    """Write raw logs of a made-up fleet to OUT/raw, and what is true of it to OUT/truth."""
    from importlib import import_module

    import_module("fleetmark.simulate").run(scenario, out, seed, nodes, days)
    log(f"wrote {out}/raw and {out}/truth")
