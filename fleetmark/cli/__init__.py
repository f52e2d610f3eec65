"""The `fleetmark` command: read arguments and settings, call the core, print. No logic here.

Data goes to stdout, the log to stderr. Exit codes: 0 fine, 1 problems found (rejected lines,
failed deliveries, a query that fails), 2 wrong use. Commands import what they need when they run,
so that `fleetmark --help` does not wait for DuckDB and Polars.
"""

from __future__ import annotations

import click

from fleetmark import __version__
from fleetmark.cli import (
    access,
    compute,
    contracts,
    data,
    mfu,
    planning,
    pulling,
    pulling_schedulers,
    running,
    serving,
    traces,
    upkeep,
)
from fleetmark.spared import spare_pandas

pulling.pull.add_command(pulling_schedulers.slurm)
pulling.pull.add_command(pulling_schedulers.kubernetes)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="fleetmark")
def main() -> None:
    """Read what a GPU fleet logs; know its useful work, what drags, and whether weights leave."""
    spare_pandas()


for _command in (
    data.ingest, pulling.pull, data.sources, data.sql, data.tables, data.files,
    compute.build, compute.detect, compute.backtest, compute.findings, compute.incident, compute.accuracy, compute.simulate,
    mfu.mfu, planning.capacity, planning.sizing, traces.check_trace,
    running.run, running.check_config,
    access.key, access.evidence,
    upkeep.doctor, upkeep.tend, upkeep.backup, contracts.contracts,
    serving.serve, serving.demo, serving.docs,
):  # fmt: skip
    main.add_command(_command)
