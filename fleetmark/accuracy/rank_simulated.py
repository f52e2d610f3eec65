"""Slow ranks of simulated jobs: which are found, why they are said to be slow, who is accused wrongly.

Per seed one simulated cluster of 128 GPUs and a week of training jobs (scenario `ranks`, whose file
states layouts, noise, faults and benign twins at their rates). The simulator's step records and
telemetry become tables directly (a test holds that way against logs and sources); kernel lines are
written and read. The shipped models and detectors run on them as they are.

A fault is found by a finding that names its rank and overlaps it; a sick node by findings on half of its
ranks. Any other finding that names a rank is false, one on a victim included. A healthy rank-day is a
day's worth of recorded steps of a rank without a fault. Slowness is what the steps really show
(simulate/rank_truth.py): a power limit costs nothing while the job demands less. A rank that its weak
chip makes 2 % slow or more is neither healthy nor a fault: a finding on it counts for nothing, and how
many of these are found is a figure of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import polars as pl

from fleetmark.accuracy.frames import judged
from fleetmark.accuracy.interval import Measured, exact, middle, rate, share
from fleetmark.accuracy.processes import each
from fleetmark.catalog import Catalog, load_catalog
from fleetmark.testing import parse_file, source_rows

NODES = 16
DETECTORS = ("straggler_rank", "moving_straggler", "stage_overload", "whole_job_slowdown")
SICK, WEAK = 0.06, "weak_chip"
# Slowness is reported at the nearest of these.
LEVELS = ((0.045, "3"), (0.08, "6"), (0.15, "10"), (float("inf"), "20"))
# The detector whose finding names a benign twin for what it is, and from which effect on it should.
NAMED = {"uneven_stages": "stage_overload", "sequence_lengths": "moving_straggler",
         "code_change": "whole_job_slowdown", "job_slowdown": "whole_job_slowdown"}  # fmt: skip
FINDINGS = """
SELECT detector, job_id[1] AS job_id, (evidence ->> 'attempt')::BIGINT AS attempt,
    unnest(if(len(rank) = 0, [NULL], rank))::BIGINT AS rank, epoch(start_ts) AS from_s, epoch(end_ts) AS until_s,
    epoch(detected_at) AS detected_s, evidence -> 'root_cause' ->> 'verdict' AS verdict,
    evidence -> 'root_cause' ->> 'cause' AS named_cause
FROM finding
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one cluster gave.

    faults      per fault: is_uneven (its job has uneven sequence lengths), cause, right_causes, slower, accused (of its ranks), ranks, delay_s, delay_steps,
                verdict and named_cause of its first finding; NULL where missed
    false       findings that name a healthy rank
    exposure    healthy rank-days per job and attempt
    twins       what was nobody's fault, and whether it was named for what it is
    """

    faults: pl.DataFrame
    false: pl.DataFrame
    exposure: pl.DataFrame
    twins: pl.DataFrame


def figures(seed: int, clusters: int, days: int, folder: Path) -> Mapping[str, Measured]:
    """All figures over clusters with the seeds from `seed` on."""
    one = partial(outcome, nodes=NODES, days=days, folder=folder)
    return summed(each(one, range(seed, seed + clusters)))


def summed(outcomes: Sequence[Outcome]) -> Mapping[str, Measured]:
    """The figures of what some clusters gave."""
    slow = pl.concat([o.faults for o in outcomes])
    faults = slow.filter(pl.col("cause") != WEAK)
    weak = slow.filter(pl.col("cause") == WEAK)
    false = sum(o.false.height for o in outcomes)
    days = sum(float(o.exposure["rank_days"].sum()) for o in outcomes)
    found = pl.col("delay_s").is_not_null()
    single = faults.filter(pl.col("cause") != "sick_node", pl.col("slower") >= SICK)
    named = faults.filter(found, pl.col("slower") >= SICK)
    true = int(faults.filter(found)["accused"].sum())
    causes = faults.group_by("cause").len()["len"]
    return {
        "recall_sick_rank": _share(single, found),
        "recall_even_batches": _share(single.filter(~pl.col("is_uneven")), found),
        "precision_sick_rank": share(true, true + false),
        "root_cause_right": _share(named, _is_right()),
        "faults_per_cause": exact(min(causes, default=0), faults.height),
        "healthy_rank_days": exact(round(days), round(days)),
        "false_accusations_per_1000_rank_days": rate(false, days, 1_000),
        "delay_steps": middle(single["delay_steps"].fill_null(float("inf")).to_list()),
        "weak_chip_days_named": _share(weak, found),
        **_per_cause(faults, named),
        **_per_twin(outcomes),
    }


def _share(rows: pl.DataFrame, condition: pl.Expr) -> Measured:
    return share(rows.filter(condition).height, rows.height)


def _is_right() -> pl.Expr:
    """The named cause is one of the right ones; or nothing is to be found, and that is said."""
    none = (pl.col("right_causes").list.len() == 0) & (pl.col("verdict") == "no_evidence_found")
    return none | pl.col("right_causes").list.contains(pl.col("named_cause")).fill_null(value=False)


def _per_cause(faults: pl.DataFrame, named: pl.DataFrame) -> Mapping[str, Measured]:
    level = pl.lit(None, pl.String)
    for limit, name in reversed(LEVELS):
        level = pl.when(pl.col("slower") < limit).then(pl.lit(name)).otherwise(level)
    parts = faults.with_columns(level.alias("level")).group_by("cause", "level")
    return {
        f"recall_{cause}_{level}_percent": _share(rows, pl.col("delay_s").is_not_null())
        for (cause, level), rows in parts
    } | {
        f"root_cause_right_{cause}": _share(rows, _is_right())
        for (cause,), rows in named.group_by("cause")
    }


def _per_twin(outcomes: Sequence[Outcome]) -> Mapping[str, Measured]:
    """Whether twins were named for what they are, and who was accused in jobs that have them."""
    job = ["job_id", "attempt"]
    rows, exposed = [], []
    for o in outcomes:
        rows.append(o.twins)
        twins = o.twins.select(*job, "kind").unique()
        accused = o.false.group_by(job).len("false")
        exposed.append(twins.join(o.exposure, on=job).join(accused, on=job, how="left").drop(job))
    measured = {
        f"named_{kind}": _share(part, pl.col("is_named"))
        for (kind,), part in pl.concat(rows).group_by("kind") if kind in NAMED
    }  # fmt: skip
    return measured | {
        f"false_accusations_{kind}": rate(
            int(part["false"].sum()), float(part["rank_days"].sum()), 1_000
        )
        for (kind,), part in pl.concat(exposed).group_by("kind")
    }


def outcome(seed: int, nodes: int, days: int, folder: Path) -> Outcome:
    """Simulate a cluster, judge it and compare with the truth. `folder` holds its kernel lines."""
    catalog = load_catalog()
    simulate = import_module("fleetmark.simulate")
    truth = import_module("fleetmark.simulate.rank_truth")
    world = simulate.build_world("ranks", seed, nodes, days)
    samples = import_module("fleetmark.simulate.minutes").readings(world, seed)
    tables = tables_of(catalog, world, seed, samples, folder / str(seed))
    with judged(catalog, DETECTORS, tables) as connection:
        findings = connection.sql(FINDINGS).pl()
    steps = tables["step_sample"]
    slow = pl.concat([truth.slow_ranks(world, steps, samples), truth.weak_chips(world, samples)])
    return compared(slow, truth.twins(world), steps, findings)


def tables_of(
    catalog: Catalog,
    world: Any,  # noqa: ANN401 - the simulator is loaded by name, as folders do not import each other
    seed: int,
    samples: Any,  # noqa: ANN401 - see above
    folder: Path,
) -> dict[str, pl.DataFrame]:
    """Everything that a world's records say, as tables. Kernel lines pass through a file."""
    minutes = import_module("fleetmark.simulate.minutes")
    kernel_log = import_module("fleetmark.simulate.kernel_log")
    kernel_log.write(world.incidents, folder)
    source, policy = catalog.sources["kernel_log"], catalog.sources["xid_policy"]
    events = [
        source_rows(source, parse_file(source, path, cluster="sim"))[0]["gpu_event"]
        for path in sorted(folder.glob("*.log"))
    ]
    policies = source_rows(policy, parse_file(policy, policy.packaged[0]))[0]
    return {
        **minutes.tables(world, seed, samples),
        **({"gpu_event": pl.concat(events)} if events else {}),
        "xid_policy": policies["xid_policy"],
    }


def compared(
    sick: pl.DataFrame, twins: pl.DataFrame, steps: pl.DataFrame, findings: pl.DataFrame
) -> Outcome:
    """Which faults were found, which findings are false, which twins were named."""
    job = ["job_id", "attempt"]
    accusing = findings.filter(pl.col("rank").is_not_null()).with_row_index("finding")
    overlaps = (pl.col("from_s") < pl.col("end_s")) & (pl.col("until_s") > pl.col("start_s"))
    pairs = accusing.join(sick, on=[*job, "rank"]).filter(overlaps).sort("detected_s")
    false = accusing.join(pairs, on="finding", how="anti")
    first = pairs.group_by("fault", maintain_order=True).agg(
        pl.col("rank").n_unique().alias("accused"),
        pl.col("detected_s", "verdict", "named_cause").first(),
    )
    faults = sick.group_by("fault", maintain_order=True).agg(
        pl.col("cause", "right_causes", *job, "start_s", "slower").first(), pl.len().alias("ranks")
    ).join(first, on="fault", how="left").with_columns(
        pl.when(2 * pl.col("accused") >= pl.col("ranks"))
        .then((pl.col("detected_s") - pl.col("start_s")).clip(0)).alias("delay_s")
    )  # fmt: skip
    uneven = twins.filter(kind="sequence_lengths").select(job).unique()
    faults = faults.join(uneven.with_columns(is_uneven=True), on=job, how="left").with_columns(
        pl.col("is_uneven").fill_null(value=False)
    )
    whole = findings.filter(pl.col("rank").is_null())
    pairs = (
        twins.with_row_index("twin")
        .with_columns(pl.col("kind").replace_strict(NAMED, default=None).alias("detector"))
        .join(whole, on=[*job, "detector"]).filter(overlaps)
    )  # fmt: skip
    is_named = pl.int_range(pl.len()).is_in(pairs["twin"].unique().to_list())
    return Outcome(
        faults.join(_delay_steps(faults, steps), on="fault", how="left"),
        false,
        _healthy(steps, sick),
        twins.with_columns(is_named.alias("is_named")),
    )


def _delay_steps(faults: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Recorded steps of the job from the fault's begin to its detection."""
    begun = steps.group_by("job_id", "attempt", "step").agg(
        (pl.col("ts").dt.epoch("us").min() / 1e6).alias("at_s")
    )
    within = pl.col("at_s").is_between(pl.col("start_s"), pl.col("detected_s"))
    return (
        faults.filter(pl.col("delay_s").is_not_null())
        .join(begun, on=["job_id", "attempt"])
        .group_by("fault")
        .agg(within.sum().cast(pl.Float64).alias("delay_steps"))
    )


def _healthy(steps: pl.DataFrame, sick: pl.DataFrame) -> pl.DataFrame:
    """Rank-days of recorded steps, less the faults' own time."""
    job = ["job_id", "attempt"]
    at_s = pl.col("ts").dt.epoch("us") / 1e6
    spans = steps.group_by(job).agg(
        (at_s.max() - at_s.min()).alias("lasts_s"), pl.col("rank").n_unique().alias("rank_count")
    )
    ill = sick.group_by(job).agg((pl.col("end_s") - pl.col("start_s")).sum().alias("sick_s"))
    rank_s = pl.col("lasts_s") * pl.col("rank_count") - pl.col("sick_s").fill_null(0)
    return spans.join(ill, on=job, how="left").select(*job, (rank_s / 86_400).alias("rank_days"))
