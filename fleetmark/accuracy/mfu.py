"""MFU and goodput against published figures, and the goodput ledger of simulated jobs (mfu_goodput.py).

Rows: samples/training/published_mfu.csv and llmfoundry_h100_mfu.csv (origin in SOURCES.md there). A row
counts as recomputed when the convention it names gives its figure within its tolerance. Figures that are
recomputed but are not what they claim (recomputation counted as MFU, a faulty formula, a total that
contradicts its row) are told apart by `fleetmark mfu audit`. Rows in which nothing is printed are no trial.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from fleetmark.accuracy import mfu_goodput
from fleetmark.accuracy.interval import Measured, exact
from fleetmark.accuracy.scratch import judged, rows
from fleetmark.mfu.audit import audit, read_entries

LOGS = Path(str(files("fleetmark.samples"))) / "training"
PUBLISHED = ("published_mfu.csv", "llmfoundry_h100_mfu.csv")
FAILED = {"not_reproduced", "not_computable", "other_convention"}
MLPERF = "tyche_ngpu512_llama31_405b_result_0.txt"
# What of the timed run neither a step nor an evaluation owns.
CLOSURE = """
WITH moment AS (
    SELECT
        epoch(max(ts) FILTER (event = 'run_stop') - max(ts) FILTER (event = 'run_start')) AS run_s,
        sum(CASE event WHEN 'eval_stop' THEN epoch(ts) WHEN 'eval_start' THEN -epoch(ts) END) AS evaluation_s
    FROM lake.train_event
)
SELECT run_s - evaluation_s - (SELECT sum(step_s) FROM lake.train_step) AS gap_s,
    (SELECT count(*) FROM lake.train_step) AS step_count
FROM moment
"""


CLUSTERS, FULL_CLUSTERS = 1, 24


def measured(seed: int, folder: Path) -> Mapping[str, Measured]:
    """What is published, then the jobs of CLUSTERS simulated clusters with the seeds from `seed` on."""
    return {**_published(folder), **mfu_goodput.figures(seed, CLUSTERS)}


def measured_in_full(seed: int, folder: Path) -> Mapping[str, Measured]:
    """The same with FULL_CLUSTERS clusters: some five minutes of one core."""
    return {**_published(folder), **mfu_goodput.figures(seed, FULL_CLUSTERS)}


def _published(folder: Path) -> Mapping[str, Measured]:
    """Published rows that recompute, and the part of MLPerf's 405B run that no step or evaluation owns."""
    verdicts = [
        verdict
        for name in PUBLISHED
        for verdict in audit(read_entries(LOGS / name))["verdict"]
        if verdict != "not_printed"
    ]
    good = sum(verdict not in FAILED for verdict in verdicts)
    with judged(folder, [("mlperf", [LOGS / MLPERF], {})], ("whole_job_slowdown",)) as store:
        gap_s, step_count = rows(store, CLOSURE).row(0)
    return {
        "published_rows_recomputed": exact(good / len(verdicts), len(verdicts)),
        "mlperf_405b_closure_s": exact(abs(gap_s), step_count),
    }
