"""The tables that telemetry and step records become, made from the same samples without text between.

Pages of a large fleet take minutes to write and read; what they end as is known: with one scrape a
minute each reading is that minute's mean. tests/test_degradation.py holds both ways against each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from .conditions import Floats
from .fleet import CLUSTER, GPU_MODEL, stream
from .health import NOT_PRINTED
from .jobs import Attempt
from .sensors import POWER_CAP_BIT, THERMAL_BIT, Ints
from .steps import step_sample as whole_steps
from .telemetry import Samples, sample
from .world import World

SENTINEL = 2**31 - 16  # the smallest number DCGM prints for "no value" (dcgm_structs.h)
STEP_S, STEP_EVERY_S, STEP_SPREAD = 4.0, 300, 0.02

# column of gpu_minute, reading, factor, decimals kept by gpu_sample (None: integers)
COLUMNS = (
    ("gpu_busy_ratio", "util_percent", 0.01, 4),
    ("sm_active_ratio", "sm_ratio", 1, 6),
    ("tensor_active_ratio", "tensor_ratio", 1, 6),
    ("dram_active_ratio", "dram_ratio", 1, 6),
    ("sm_clock_mhz", "sm_clock_mhz", 1, 0),
    ("memory_clock_mhz", "memory_clock_mhz", 1, 0),
    ("power_w", "power_w", 1, 3),
    ("power_limit_w", "power_limit_w", 1, 3),
    ("gpu_temp_max_c", "gpu_temp_c", 1, None),
    ("memory_temp_max_c", "memory_temp_c", 1, None),
    ("throttle_mask", "throttle_mask", 1, None),
)
# What a MIG instance has none of: the whole GPU's.
WHOLE_ONLY = ("gpu_busy_ratio", "sm_clock_mhz", "memory_clock_mhz", "power_w", "power_limit_w",
              "gpu_temp_max_c", "memory_temp_max_c", "throttle_mask", "mask_sw_power_cap_s",
              "mask_thermal_s")  # fmt: skip


def readings(world: World, seed: int) -> Samples:
    """What all GPUs of a world read, once a minute."""
    return sample(world.fleet, world.attempts, world.all_incidents, seed, every_s=60)


def tables(world: World, seed: int, samples: Samples | None = None) -> dict[str, pl.DataFrame]:
    """gpu_minute, gpu_allocation and step_sample of a world, from its `readings`."""
    samples = samples or readings(world, seed)
    found = {
        "gpu_minute": gpu_minute(samples),
        "gpu_allocation": gpu_allocation(world.attempts),
        "step_sample": step_records(world, samples, seed),
    }
    return {name: frame for name, frame in found.items() if frame.width}


def step_records(world: World, samples: Samples, seed: int) -> pl.DataFrame:
    """Rows of step_sample: whole steps of jobs with a layout, computing times of others."""
    if world.layouts:
        return whole_steps(samples, world.layouts, world.all_incidents, seed)
    return step_sample(samples, world.stages, seed)


def gpu_minute(samples: Samples) -> pl.DataFrame:
    """Rows of gpu_minute for samples of one scrape a minute: the columns that hold readings.

    Pods that share a GPU leave no trace: their series repeat it.
    """
    shape = samples.ts_s.shape
    printed = ~samples.missing.ravel()
    minute_us = (samples.ts_s // 60 * 60 * 1_000_000).astype(np.int64).ravel()
    columns: dict[str, object] = {
        "gpu": np.tile(np.arange(shape[1], dtype=np.int32), shape[0])[printed],
        "minute_ts": minute_us[printed],
    }
    for column, reading, factor, decimals in COLUMNS:
        values = samples.values[reading].ravel()[printed]
        columns[column] = _stored(values, factor, decimals)
    mask = samples.values["throttle_mask"].ravel()[printed].astype(np.int64)
    for column, bit in (("mask_sw_power_cap_s", POWER_CAP_BIT), ("mask_thermal_s", THERMAL_BIT)):
        columns[column] = np.where(mask & bit, 60.0, 0.0)
    columns["instances"] = samples.instances.ravel()[printed]
    frame = pl.DataFrame(columns).with_columns(pl.col("minute_ts").cast(pl.Datetime("us")))
    whole = frame.join(_gpus(samples), on="gpu")
    split = whole.filter(pl.col("instances") > 0)
    parts = split.with_columns(
        pl.int_ranges(1, pl.col("instances") + 1).alias("mig_instance"),
        *(pl.lit(None).alias(name) for name in columns if name in WHOLE_ONLY),
    ).explode("mig_instance")  # fmt: skip
    typed = parts.with_columns(pl.col(name).cast(kind) for name, kind in whole.schema.items())
    return pl.concat([whole, typed]).drop("gpu", "instances")


def _gpus(samples: Samples) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "gpu": np.arange(len(samples.gpus), dtype=np.int32),
            "cluster": CLUSTER,
            "node": [gpu.node for gpu in samples.gpus],
            "gpu_uuid": [gpu.uuid for gpu in samples.gpus],
            "gpu_index": [gpu.index for gpu in samples.gpus],
            "gpu_model": GPU_MODEL,
            "mig_instance": "",
            "sample_count": 1,
            "profiled_sample_count": 1,
            "coverage_ratio": 1.0,
            "mask_known_s": 60.0,
        }
    )


def _stored(values: Floats | Ints, factor: float, decimals: int | None) -> pl.Series:
    """As gpu_sample keeps it: the printed number (six decimals) in the column's unit and decimals."""
    valid = pl.Series((values < SENTINEL) & (values != NOT_PRINTED))
    if decimals is None:
        return pl.select(pl.when(valid).then(pl.Series(values))).to_series()
    exact = np.round(np.round(values.astype(np.float64), 6) * factor, decimals)
    return pl.select(pl.when(valid).then(pl.Series(exact))).to_series()


def step_sample(
    samples: Samples, stages: Mapping[Attempt, Sequence[int]], seed: int
) -> pl.DataFrame:
    """One recorded step per GPU and five minutes for each job of `stages`: its GPUs' stages, in order."""
    random = stream(seed, "steps")
    place = {gpu.uuid: number for number, gpu in enumerate(samples.gpus)}
    frames = []
    for attempt, stage in stages.items():
        every = max(1, round(STEP_EVERY_S / (samples.ts_s[1, 0] - samples.ts_s[0, 0])))
        for rank, gpu in enumerate(attempt.gpus):
            times = samples.ts_s[::every, place[gpu.uuid]]
            compute = samples.compute[::every, place[gpu.uuid]]
            inside = (times >= attempt.begin_s) & (times < (attempt.end_s or np.inf))
            inside &= np.isfinite(compute)
            lasts = STEP_S * compute[inside].astype(np.float64)
            lasts *= 1 + STEP_SPREAD * random.standard_normal(lasts.size)
            frames.append(
                pl.DataFrame(
                    {
                        "cluster": CLUSTER,
                        "job_id": str(attempt.job_id),
                        "attempt": attempt.submit_s,
                        "rank": rank,
                        "step": np.arange(lasts.size),
                        "ts": (times[inside] * 1e6).astype(np.int64),
                        "time_basis": "absolute",
                        "pp_stage": stage[rank],
                        "node": gpu.node,
                        "gpu_uuid": gpu.uuid,
                        "compute_s": lasts,
                    }
                )
            )
    return (
        pl.concat(frames).with_columns(pl.col("ts").cast(pl.Datetime("us")))
        if frames
        else pl.DataFrame()
    )


def gpu_allocation(attempts: Sequence[Attempt]) -> pl.DataFrame:
    """Rows of gpu_allocation: who held GPUs on which node."""
    rows = [
        {"cluster": CLUSTER, "job_id": a.array_id or str(a.job_id), "attempt": a.submit_s, "node": node,
         "start_ts": a.start_s * 1_000_000, "end_ts": None if a.end_s is None else a.end_s * 1_000_000,
         "gpu_count": float(sum(gpu.node == node for gpu in a.gpus))}
        for a in attempts if a.start_s is not None and a.gpus for node in a.node_names
    ]  # fmt: skip
    times = [pl.col(name).cast(pl.Datetime("us")) for name in ("start_ts", "end_ts")]
    return pl.DataFrame(rows, infer_schema_length=None).with_columns(times)
