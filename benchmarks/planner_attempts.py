"""A planner's questions over a year of attempts: what the roll-ups cost, and how long answers take.

A lake is filled with a year of made-up attempts on 4,096 nodes, the models that the reliability views rest on are
built, and their queries are asked as a user asks them. Attempts are
partitioned by cluster and day, so a month reads a twelfth of them; the views read roll-ups (outcome_day, run_exposure_day:
some hundred rows a day), whose size does not grow with the attempts. One query reads the attempts themselves, to show what grows.
"""

from __future__ import annotations

import time
from datetime import date, timedelta
from pathlib import Path

from fleetmark.catalog import Catalog, load_catalog
from fleetmark.pipeline.build import bring_up_to_date
from fleetmark.pipeline.write import log_days
from fleetmark.store import Store

from .workload import Goal, Work, Workload, cpu_each

FIRST = date(2026, 1, 1)
DAYS = 360
CHUNK_DAYS = 30
ATTEMPTS, TIMES = 10_000_000, 3
# One attempt in a thousand loses a node, 5 % of the others fail, 1 % are preempted: shares of the order that public traces show.
FILL = """
INSERT INTO lake.job_attempt BY NAME
WITH drawn AS (
    SELECT n, hash(n) % 1000000 / 1e6 AS a, hash(n + 7) % 1000000 / 1e6 AS b, hash(n + 13) % 1000000 / 1e6 AS c
    FROM range($1, $2) AS t(n)
),
timed AS (
    SELECT *,
        '2026-01-01'::TIMESTAMP + to_seconds((n * $3)::DOUBLE) AS submit_ts,
        -1800 * ln(1 - a) AS run_s,
        CASE WHEN b < 0.7 THEN 1 WHEN b < 0.9 THEN 8 WHEN b < 0.99 THEN 64 ELSE 1024 END AS gpus
    FROM drawn
)
SELECT
    'bench' AS cluster, n::VARCHAR AS job_id, epoch(submit_ts)::BIGINT AS attempt, date_trunc('second', submit_ts) AS attempt_ts,
    n::VARCHAR AS raw_job_id, 'user' || hash(n + 3) % 500 AS principal, 'team' || hash(n + 3) % 40 AS account, 'main' AS partition,
    submit_ts, submit_ts AS eligible_ts, submit_ts + to_seconds(c * 600) AS start_ts,
    submit_ts + to_seconds(c * 600 + run_s) AS end_ts, submit_ts + to_seconds(c * 600 + run_s) AS observed_ts,
    2::TINYINT AS phase,
    CASE WHEN c < 0.001 THEN 'NODE_FAIL' WHEN c < 0.051 THEN 'FAILED' WHEN c < 0.061 THEN 'PREEMPTED' ELSE 'COMPLETED' END AS state,
    gpus::INTEGER AS req_gpus, gpus::INTEGER AS alloc_gpus, greatest(1, gpus // 8)::INTEGER AS alloc_nodes,
    'tres_generic' AS gpu_count_source, ['node' || hash(n + 5) % 4096] AS node_list,
    [] AS state_flags, [] AS gpu_models, [] AS gpu_model_counts, true AS has_all_attempts, 'slurm_sacct' AS source,
    'bench' AS file_id, n AS line_no
FROM timed
ORDER BY attempt_ts
"""
RULES = """
INSERT INTO lake.failure_rule BY NAME
SELECT 'state' AS evidence, value, failure_domain, 'high' AS confidence, precedence, 'bench' AS file_id, row_number() OVER () AS line_no
FROM (VALUES ('COMPLETED', 'none', 100), ('PREEMPTED', 'preemption', 95), ('NODE_FAIL', 'infrastructure', 60), ('FAILED', 'unknown', 0))
    AS rule(value, failure_domain, precedence)
"""
MODELS = (
    "node_known", "node_outage", "attempt_outcome", "run_exposure_day", "outcome_day", "failure_share", "failure_month",
    "job_mttf_by_size",
)  # fmt: skip
QUESTIONS = {
    "failure shares of the year": "SELECT state, failure_domain, sum(attempt_count), sum(gpu_h) FROM lake.failure_share GROUP BY ALL",
    "time to failure by size, a month": "FROM lake.job_mttf_by_size WHERE month_ts = '2026-06-01' AND population = 'infrastructure'",
    "failures per day and size, the year": "SELECT day_ts, size_bucket, sum(started_count) FROM lake.outcome_day "
    "WHERE failure_domain = 'infrastructure' GROUP BY ALL",
    "GPU-hours per day, the year": "SELECT day_ts, sum(gpu_s) / 3600 FROM lake.run_exposure_day GROUP BY ALL",
    "attempts as recorded: a user's month": "SELECT state, count(*), sum(alloc_gpus * epoch(end_ts - start_ts)) FROM lake.job_attempt "
    "WHERE attempt_ts >= '2026-06-01' AND attempt_ts < '2026-07-01' AND principal = 'user7' GROUP BY ALL",
    "attempts as recorded: p90 of a day's waits by size": "SELECT alloc_gpus, quantile_cont(epoch(start_ts - submit_ts), 0.9) "
    "FROM lake.job_attempt WHERE attempt_ts >= '2026-06-10' AND attempt_ts < '2026-06-11' GROUP BY ALL",
    "attempts as recorded: GPU-hours by team, the year": "SELECT account, sum(alloc_gpus * epoch(end_ts - start_ts)) / 3600 FROM lake.job_attempt GROUP BY ALL",
    "attempts themselves: a user's month": "SELECT state, count(*), sum(run_s) FROM lake.attempt_outcome "
    "WHERE outcome_ts >= '2026-06-01' AND outcome_ts < '2026-07-01' AND principal = 'user7' GROUP BY ALL",
    "attempts themselves: p90 of run time by team, the year": "SELECT account, quantile_cont(run_s, 0.9) FROM lake.attempt_outcome GROUP BY ALL",
}  # fmt: skip


def fill(store: Store, catalog: Catalog, attempts: int) -> None:
    """A year of attempts, committed month by month as an ingest logs it."""
    store.ensure(catalog.tables.values())
    step = DAYS * 86400 / attempts
    store.commit(lambda: store.connection.execute(RULES))
    for chunk in range(DAYS // CHUNK_DAYS):
        first = attempts * chunk * CHUNK_DAYS // DAYS
        last = attempts * (chunk + 1) * CHUNK_DAYS // DAYS
        days = [FIRST + timedelta(days=chunk * CHUNK_DAYS + n) for n in range(CHUNK_DAYS)]

        def work(first: int = first, last: int = last, days: list[date] = days) -> None:
            store.connection.execute(FILL, [first, last, step])
            log_days(store, [("job_attempt", "bench", day) for day in days])

        store.commit(work)


def prepare(folder: Path, scale: float) -> Path:
    """A lake with ten million attempts at scale 1, and the models below the reliability views; left alone when it exists."""
    root = folder / "planner"
    if not root.exists():
        catalog = load_catalog()
        with Store(root) as store:
            fill(store, catalog, max(10_000, round(ATTEMPTS * scale)))
            for name in MODELS:
                bring_up_to_date(store, catalog, catalog.models[name], {})
    return root


def ask(root: Path) -> Work:
    """Ask each question three times: milliseconds, medians. Raises RuntimeError for an answer without rows."""
    medians = {}
    with Store(root, read_only=True) as store:
        for question, sql in QUESTIONS.items():
            taken = []
            for _ in range(TIMES):
                clock = time.perf_counter()
                if not store.connection.execute(sql).fetchall():
                    raise RuntimeError(f"{question}: no row")
                taken.append(time.perf_counter() - clock)
            medians[f"ms: {question}"] = sorted(taken)[TIMES // 2] * 1000
    return Work(len(QUESTIONS) * TIMES, medians)


PLANNER = Workload(
    name="planner",
    doc="nine questions of a planner over a year of ten million attempts at scale 1 (2.5 million at 0.25), three times each; milliseconds by the clock on the wall",
    unit="queries",
    prepare=prepare,
    run=ask,
    goals=(Goal("CPU s a query", of=cpu_each, at_most=True),),
    rounds=1,
)
