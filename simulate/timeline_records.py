"""What the jobs of timeline.py leave behind, as the tables that logs become.

The log of steps prints a row every `log_every` steps, ranks record a step a minute, exporters are scraped
once a minute. Nothing here tells who owns a second.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import polars as pl

from .fleet import CLUSTER, GPU_MODEL, GPUS_PER_NODE, stream
from .timeline import RANK_NOISE, Job, Run, Step

RECORD_EVERY_S = 60.0
# Shares of a step: computing, communication, waiting for input, rest (AR: communication 5 to 15 %).
COMPUTE, COMMUNICATION, DATA = 0.85, 0.10, 0.01
# SM and tensor activity while the job does what; GPUs of a stopped job spin in the collective.
ACTIVITY = {"step": (0.95, 0.45), "init": (0.25, 0.01), "restart": (0.25, 0.01), "checkpoint_load": (0.1, 0.0),
            "checkpoint_save": (0.3, 0.0), "evaluation": (0.8, 0.3), "hang_detection": (0.99, 0.0),
            "preemption": (0.5, 0.0), "idle": (0.0, 0.0), "unexplained": (0.2, 0.0)}  # fmt: skip
THERMAL_BIT, CLOCK_MHZ, POWER_W, LIMIT_W = 0x20, 1410, 380.0, 400.0
Row = dict[str, Any]


def _time(seconds: float) -> datetime:
    whole = int(np.floor(seconds))
    return datetime.fromtimestamp(whole, UTC).replace(
        tzinfo=None, microsecond=min(999_999, round((seconds - whole) * 1e6))
    )


def _frame(rows: Sequence[Row]) -> pl.DataFrame:
    return pl.DataFrame(rows, infer_schema_length=None)


def job_attempt(jobs: Sequence[Job], until_s: float) -> pl.DataFrame:
    """What the scheduler records, read at the window's end."""
    return _frame([
        {"cluster": CLUSTER, "job_id": job.job_id, "attempt": run.attempt, "attempt_ts": _time(run.attempt),
         "raw_job_id": job.job_id, "principal": "train-llm", "account": "pretrain", "partition": "gpu",
         "submit_ts": _time(run.attempt), "start_ts": _time(run.start_s),
         "end_ts": None if run.state == "RUNNING" else _time(run.end_s),
         "observed_ts": _time(min(until_s, run.end_s)), "state": run.state, "alloc_nodes": len(job.nodes),
         "alloc_gpus": job.ranks, "gpu_count_source": "tres_generic", "node_list": list(job.nodes),
         "has_all_attempts": True}
        for job in jobs for run in job.runs
    ])  # fmt: skip


def train_step(jobs: Sequence[Job], until_s: float) -> pl.DataFrame:
    """The jobs' own logs. They do not know the scheduler's attempts."""
    return _frame([row for job in jobs for run in job.runs for row in _logged(job, run, until_s)])


def _logged(job: Job, run: Run, until_s: float) -> Iterator[Row]:
    waiting: list[Step] = []
    for step in run.steps:
        waiting.append(step)
        end_s = step.start_s + step.length_s
        if (step.number + 1) % job.log_every or end_s >= until_s:
            continue
        mean_s = sum(s.length_s for s in waiting) / len(waiting)
        yield {"cluster": CLUSTER, "job_id": job.job_id, "attempt": run.number + 1, "step": step.number + 1,
               "ts": _time(end_s - mean_s), "time_basis": "absolute", "step_s": round(mean_s, 6)}  # fmt: skip
        waiting = []


SPANS = {
    "evaluation": "eval",
    "checkpoint_save": "checkpoint_save",
    "checkpoint_load": "checkpoint_load",
}


def train_event(jobs: Sequence[Job], until_s: float) -> pl.DataFrame:
    """Evaluations, saves and loads, from start to stop."""
    rows = [
        {"cluster": CLUSTER, "job_id": job.job_id, "attempt": run.number + 1, "ts": _time(at_s),
         "event": f"{SPANS[owner]}_{edge}",
         "step": dict(run.saved).get(end_s) if owner == "checkpoint_save" and edge == "stop" else None}
        for job in jobs for run in job.runs for owner, start_s, end_s in run.phases if owner in SPANS
        for edge, at_s in (("start", start_s), ("stop", end_s)) if at_s < until_s
    ]  # fmt: skip
    return _frame(rows)


def step_sample(jobs: Sequence[Job], seed: int, until_s: float) -> pl.DataFrame:
    """Records of all ranks, about one step a minute."""
    random = stream(seed, "timeline ranks")
    frames = []
    for job in jobs:
        every = max(1, round(RECORD_EVERY_S / job.step_s))
        for run in job.runs:
            kept = [
                s for s in run.steps if s.number % every == 0 and s.start_s + s.length_s < until_s
            ]
            if kept:
                frames.append(_ranks(job, run, kept, random))
    return pl.concat(frames)


def _ranks(job: Job, run: Run, steps: Sequence[Step], random: np.random.Generator) -> pl.DataFrame:
    count, ranks = len(steps), job.ranks
    ideal, length = (
        np.array([getattr(s, n) for s in steps])[:, None] for n in ("ideal_s", "length_s")
    )
    extra = length - ideal
    cause = np.array([s.slow.cause if s.slow else "" for s in steps])[:, None]
    hit = np.array([s.slow.rank if s.slow else -1 for s in steps])[:, None] == np.arange(ranks)
    compute = COMPUTE * ideal * (1 + RANK_NOISE * random.standard_normal((count, ranks)))
    compute = compute + np.where(
        hit & np.isin(cause, ["straggler", "throttle", "silent_degradation"]), extra, 0
    )
    data = DATA * ideal + np.where(cause == "data_stall", extra, 0) * np.ones((1, ranks))
    rest = length - compute - data

    def column(values: Any) -> Any:  # noqa: ANN401 - an array of any kind, one value per record
        return np.broadcast_to(values, (count, ranks)).ravel()

    at_us = np.array([round(s.start_s * 1e6) for s in steps])[:, None]
    return pl.DataFrame({
        "cluster": CLUSTER, "job_id": job.job_id, "attempt": run.number + 1,
        "rank": column(np.arange(ranks, dtype=np.int32)), "step": column(np.array([s.number + 1 for s in steps])[:, None]),
        "ts": pl.Series(column(at_us)).cast(pl.Datetime("us")), "time_basis": "absolute",
        "pp_stage": column(np.zeros(ranks, dtype=np.int32)),
        "node": column(np.array([job.nodes[r // GPUS_PER_NODE] for r in range(ranks)])),
        "gpu_uuid": column(np.array([_uuid(job, r) for r in range(ranks)])),
        "step_s": column(length), "compute_s": column(compute), "data_s": column(data),
        "communication_s": column(rest),
    }).cast({"attempt": pl.Int64, "step": pl.Int64})  # fmt: skip


def _uuid(job: Job, rank: int) -> str:
    return f"GPU-{job.nodes[rank // GPUS_PER_NODE]}-{rank % GPUS_PER_NODE}"


def gpu_minute(jobs: Sequence[Job], seed: int, start_s: int, until_s: int) -> pl.DataFrame:
    """What exporters show of the jobs' GPUs, held or not."""
    random = stream(seed, "timeline telemetry")
    minutes = np.arange(start_s, until_s, 60)
    return pl.concat([_gpus(job, minutes, random) for job in jobs])


def _gpus(
    job: Job, minutes: np.ndarray[Any, np.dtype[np.int64]], random: np.random.Generator
) -> pl.DataFrame:
    shape = (minutes.size, job.ranks)
    sm, tensor = np.zeros(shape), np.zeros(shape)
    clock, mask = np.full(shape, float(CLOCK_MHZ)), np.zeros(shape, dtype=np.int64)
    for run in job.runs:
        for owner, start_s, end_s in [("step", run.start_s, run.end_s), *run.phases]:
            here = (minutes + 30 >= start_s) & (minutes + 30 < end_s)
            sm[here], tensor[here] = ACTIVITY[owner]
        for slow in run.slowdowns:
            here = (minutes >= slow.start_s) & (minutes + 60 <= min(slow.end_s, run.end_s))
            tensor[here] /= 1 + slow.ratio
            if slow.cause in {"throttle", "silent_degradation"}:
                clock[here, slow.rank] /= 1 + slow.ratio
                tensor[here, slow.rank] *= 1 + slow.ratio
            if slow.cause == "throttle":
                mask[here, slow.rank] = THERMAL_BIT
    noise = 1 + 0.01 * random.standard_normal(shape)
    tensor *= noise
    ranks = np.broadcast_to(np.arange(job.ranks), shape).ravel()
    node = np.array([job.nodes[r // GPUS_PER_NODE] for r in range(job.ranks)])[ranks]
    return pl.DataFrame({
        "cluster": CLUSTER, "node": node, "gpu_uuid": np.array([_uuid(job, r) for r in range(job.ranks)])[ranks],
        "minute_ts": pl.Series(np.repeat(minutes, job.ranks) * 1_000_000).cast(pl.Datetime("us")),
        "gpu_index": pl.Series(ranks % GPUS_PER_NODE, dtype=pl.Int32), "gpu_model": GPU_MODEL, "mig_instance": "",
        "sample_count": 1, "profiled_sample_count": 1, "coverage_ratio": 1.0, "mask_known_s": 60.0,
        "gpu_busy_ratio": (sm > 0).ravel().astype(float), "sm_active_ratio": sm.ravel(),
        "tensor_active_ratio": tensor.ravel(), "dram_active_ratio": (tensor * 0.6).ravel(),
        "sm_clock_mhz": clock.ravel(), "memory_clock_mhz": 1593.0,
        "power_w": (90 + (POWER_W - 90) * sm * noise).ravel(), "power_limit_w": LIMIT_W,
        "gpu_temp_max_c": pl.Series((45 + 20 * sm).ravel().astype(np.int32)), "throttle_mask": mask.ravel(),
        "mask_thermal_s": np.where(mask > 0, 60.0, 0.0).ravel(),
    })  # fmt: skip


def tables(jobs: Sequence[Job], seed: int, start_s: int, until_s: int) -> dict[str, pl.DataFrame]:
    """Everything that the jobs leave behind."""
    return {
        "job_attempt": job_attempt(jobs, until_s),
        "gpu_minute": gpu_minute(jobs, seed, start_s, until_s),
        "train_step": train_step(jobs, until_s),
        "train_event": train_event(jobs, until_s),
        "step_sample": step_sample(jobs, seed, until_s),
    }
