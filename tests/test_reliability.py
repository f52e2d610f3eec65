"""Published figures of failures, and what each exclusion in them changes; real records through the whole chain."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import polars as pl
import pytest

from fleetmark.accuracy.planner_reliability import (
    ACME_PUBLISHED,
    acme_equal,
    acme_median,
    acme_outcomes,
    acme_shares,
    projections,
)
from fleetmark.catalog import load_catalog
from fleetmark.testing import complete, compute, parse_file, source_rows

CATALOG = load_catalog()
SAMPLES = Path(__file__).parent.parent / "samples" / "scheduler"


def attempts(source: str, path: str, **options: str) -> pl.DataFrame:
    found = CATALOG.sources[source]
    rows, _ = source_rows(found, parse_file(found, SAMPLES / path, **options))
    kept = rows["job_attempt"].drop("file_id", "line_no")
    return complete(CATALOG.tables["job_attempt"], kept)


def rules() -> pl.DataFrame:
    found = CATALOG.sources["failure_rule"]
    rows, refused = source_rows(found, parse_file(found, found.packaged[0]))
    assert refused.is_empty()
    kept = rows["failure_rule"].drop("file_id", "line_no")
    return complete(CATALOG.tables["failure_rule"], kept)


def table(name: str, **given: pl.DataFrame) -> pl.DataFrame:
    model = CATALOG.models[name]
    inputs = {i: given[i] if i in given else CATALOG.tables[i].empty() for i in model.inputs}
    return compute(CATALOG, model, inputs, {})


def test_acmes_shares_of_jobs_and_of_gpu_time() -> None:
    """A1, A2. Filter: GPU jobs. Mapping: TIMEOUT and NODE_FAIL are failed, cancelled stands apart. Denominators: GPU jobs,
    and the GPU time of all of them. Seren: 42.9 % of jobs failed, with 12.4 % of the GPU time.
    """
    assert all(acme_equal(CATALOG))


def test_acmes_shares_need_the_filter_and_the_right_denominator() -> None:
    """With CPU jobs in the denominator Seren's failed are 31.3 %, not 42.9; taking jobs for time is wrong by 30 points;
    counting cancelled as failed, as some do, gives 50.3 %.
    """
    outcomes = acme_outcomes(with_cpu_jobs=True)
    with_cpu = acme_shares(CATALOG, outcomes, "attempt_ratio")
    of_jobs = acme_shares(CATALOG, outcomes, "gpu_attempt_ratio")
    of_time = acme_shares(CATALOG, outcomes, "gpu_h_ratio")
    failed = ("Seren", "FAILED")
    assert with_cpu[failed] == pytest.approx(31.3, abs=0.1)
    assert of_jobs[failed] - of_time[failed] == pytest.approx(30.5, abs=0.1)
    merged = of_jobs[failed] + of_jobs["Seren", "CANCELLED"]
    assert merged == pytest.approx(50.3, abs=0.1)
    assert ACME_PUBLISHED[failed] == (42.9, 12.4)
    without = acme_shares(CATALOG, acme_outcomes(with_cpu_jobs=False), "attempt_ratio")
    assert without[failed] == pytest.approx(42.9, abs=0.1)


def test_acmes_medians_of_telemetry() -> None:
    """A4, A5. Medians of DCGM samples: GPU utilisation 99 % (Seren) and 97 % (Kalos), used memory over 75 % of 80 GiB (Kalos).
    The file matters: Kalos's full one gives 98 %; and the cluster: on Seren half of the memory is 39 %.
    """
    assert acme_median("seren", "gpu_util_pct") == 99
    assert acme_median("kalos_short", "gpu_util_pct") == 97
    assert acme_median("kalos", "gpu_util_pct") == 98
    assert acme_median("kalos", "fb_used_pct") == pytest.approx(75.5, abs=0.1)
    assert acme_median("seren", "fb_used_pct") == pytest.approx(39.3, abs=0.1)


def test_llamas_planned_interruptions_do_not_count() -> None:
    """M2. 419 unexpected in 54 days on 2,048 nodes: 3.09 h. With the 47 planned ones it would be 2.78 h."""
    node_days = 54 * 2048
    assert projections(CATALOG, 419 / node_days * 1000)[16_384] == pytest.approx(3.09, abs=0.01)
    assert projections(CATALOG, 466 / node_days * 1000)[16_384] == pytest.approx(2.78, abs=0.01)


def test_metas_measured_time_is_not_the_projected_one() -> None:
    """M1, M1x. 6.50 per 1,000 node-days gives 1.8 h and 0.23 h; at 1,024 GPUs 28.8 h, while 7.9 h were measured there."""
    hours = projections(CATALOG, 6.5)
    assert hours[16_384] == pytest.approx(1.803, abs=5e-4)
    assert hours[131_072] == pytest.approx(0.225, abs=5e-4)
    assert hours[1_024] == pytest.approx(28.8, abs=0.1)
    assert hours[1_024] / 7.9 == pytest.approx(3.65, abs=0.01)
    assert hours[8] == pytest.approx(3_692, abs=1)


def test_phillys_example_loses_its_first_attempt() -> None:
    """P0. Two attempts on 8 GPUs, 74 s and 193,182 s, 7 s apart. With the last attempt only 592 GPU-seconds vanish."""
    runs = attempts("philly_trace", "philly/philly_job_record_example.json")
    outcome = table("attempt_outcome", job_attempt=runs, failure_rule=rules()).sort("attempt")
    assert outcome["run_s"].to_list() == [74, 193_182]
    assert outcome["gpu_s"].to_list() == [592, 8 * 193_182]
    job = table("job", job_attempt=runs)
    found = table("interruption", job_attempt=runs, job=job, attempt_outcome=outcome)
    assert found.height == 1
    assert found["queue_gap_s"].to_list() == [7]
    assert (found["lost_lower_gpu_h"][0], found["lost_source"][0]) == (0, "unknown")
    assert found["lost_upper_gpu_h"][0] == pytest.approx(592 / 3600)
    last = runs.filter(pl.col("attempt") == runs["attempt"].max())
    alone = table("attempt_outcome", job_attempt=last, failure_rule=rules())
    assert sum(outcome["gpu_s"]) - sum(alone["gpu_s"]) == 592
    only = table(
        "interruption",
        job_attempt=last,
        job=table("job", job_attempt=last),
        attempt_outcome=alone,
    )
    assert only.is_empty()


def test_a_real_node_failure_without_an_end_counts_for_the_infrastructure() -> None:
    """Slurm 21.08's record of a failed prolog: state NODE_FAIL, end 0, exit code SUCCESS, 20,615 s elapsed."""
    runs = attempts("sacct_json", "slurm-mila/sacct_json_21.08.8_nodefail.json", cluster="mila")
    failed = table("attempt_outcome", job_attempt=runs, failure_rule=rules()).filter(
        pl.col("state") == "NODE_FAIL"
    )
    shown = failed.select("failure_domain", "evidence", "evidence_value", "run_s").rows()
    assert shown == [("infrastructure", "state_reason", "Prolog", 20_615)]


def test_real_slurm_states_map_to_domains() -> None:
    """Every state of a real Slurm 22.05's accounting, by the rules that ship; failed without a sign is unknown."""
    runs = attempts("sacct", "slurm-22.05/sacct-parsable2-all-fields.txt", cluster="s", tz="UTC")
    found = table("attempt_outcome", job_attempt=runs, failure_rule=rules())
    counted = found.group_by("state", "failure_domain").len().sort("state").rows()
    assert counted == [
        ("CANCELLED", "cancelled", 5), ("COMPLETED", "none", 20), ("DEADLINE", "timelimit", 1), ("FAILED", "unknown", 9),
        ("NODE_FAIL", "infrastructure", 1), ("PREEMPTED", "preemption", 1), ("REQUEUED", "unknown", 1),
        ("TIMEOUT", "timelimit", 1),
    ]  # fmt: skip
    without = table("attempt_outcome", job_attempt=runs)
    assert without["failure_domain"].unique().to_list() == ["unknown"]


@pytest.mark.parametrize(
    ("gpus", "rate", "save_min", "best_min", "ettr"),
    [
        # arXiv 2410.21680, restart in 5 min, best interval sqrt(2 w / (N r)): attainable ETTR.
        (12_000, 6.5, 5, 38.4, 0.740),
        (12_000, 6.5, 1 / 6, None, 0.9205),
        (12_000, 1.0, 5, None, 0.898),
        (16_384, 6.5, 5, 32.9, 0.696),
        (2_048, 6.5, 5, None, 0.8925),
    ],
)
def test_modelled_ettr_is_that_of_meta(
    gpus: int, rate: float, save_min: float, best_min: float | None, ettr: float
) -> None:
    formulas = import_module("fleetmark.models.reliability._formulas")
    mttf_min = 1_000 * 1_440 / (rate * gpus / 8)
    interval = pl.select(formulas.young_daly_s(pl.lit(save_min), pl.lit(mttf_min))).item()
    if best_min is not None:
        assert interval == pytest.approx(best_min, abs=0.05)
    got = formulas.modelled_ettr_ratio(
        pl.lit(60 / mttf_min), pl.lit(5 / 60), pl.lit(interval / 60), pl.lit(save_min / 60)
    )
    assert pl.select(got).item() == pytest.approx(ettr, abs=0.0006)
