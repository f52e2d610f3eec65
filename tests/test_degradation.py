"""GPUs that fall behind: simulated faults and twins from pages to finding, and on real readings."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import duckdb
import polars as pl
import pytest

from fleetmark.accuracy import frames
from fleetmark.catalog import load_catalog
from fleetmark.testing import compute, differences, parse_file, source_rows

CATALOG = load_catalog()
simulate = import_module("fleetmark.simulate")
minutes = import_module("fleetmark.simulate.minutes")
READINGS = ("sample_count", "gpu_busy_ratio", "sm_active_ratio", "tensor_active_ratio",
            "dram_active_ratio", "sm_clock_mhz", "memory_clock_mhz", "power_w", "power_limit_w",
            "gpu_temp_max_c", "memory_temp_max_c", "throttle_mask")  # fmt: skip


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every kind once on one node, as logs."""
    out = tmp_path_factory.mktemp("faults")
    simulate.run("faults", out, seed=5, nodes=1, days=1)
    return out


def read(raw: Path, source: str, pattern: str) -> dict[str, pl.DataFrame]:
    """What a source makes of raw files; none may be refused."""
    found: dict[str, list[pl.DataFrame]] = {}
    for path in sorted((raw / "raw").glob(pattern)):
        parsed = parse_file(CATALOG.sources[source], path, cluster="sim")
        rows, refused = source_rows(CATALOG.sources[source], parsed)
        assert refused.is_empty(), refused.row(0)
        for name, frame in rows.items():
            found.setdefault(name, []).append(frame.drop("file_id", "line_no"))
    return {name: pl.concat(frames) for name, frames in found.items()}


def test_tables_made_directly_equal_those_that_pages_become(raw: Path) -> None:
    """The accuracy figures rest on the direct way: each reading of each minute is the same."""
    samples = read(raw, "dcgm_exporter", "dcgm/*.prom")["gpu_sample"]
    read_minutes = compute(CATALOG, CATALOG.models["gpu_minute"], {"gpu_sample": samples}, {})
    want = read_minutes.filter(pl.col("sample_count") > 0)
    world = simulate.build_world("faults", 5, 1, 1)
    made = minutes.tables(world, 5)["gpu_minute"]
    keys = ["gpu_uuid", "mig_instance", "minute_ts"]
    # One row per GPU and minute, and those of two instances beside it while it is split.
    assert want.select(keys).is_unique().all()
    assert want["mig_instance"].unique().sort().to_list() == ["", "1", "2"]
    got = made.select(*keys, *READINGS).cast({n: want.schema[n] for n in READINGS})
    assert want.height > 10_000
    assert differences(got, want.select(*keys, *READINGS), 1e-9) == []
    jobs = read(raw, "sacct", "slurm/*.txt")["job_attempt"]
    held = compute(CATALOG, CATALOG.models["gpu_allocation"], {"job_attempt": jobs}, {})
    same = minutes.gpu_allocation(world.attempts)
    assert differences(same, held.select(same.columns), 1e-9) == []


def test_step_records_become_the_steps_made_directly(raw: Path) -> None:
    got = read(raw, "step_record", "steps/*.jsonl")["step_sample"]
    want = minutes.tables(simulate.build_world("faults", 5, 1, 1), 5)["step_sample"]
    assert differences(got, want, 1e-9) == []


def test_kernel_lines_of_the_faults_are_read(raw: Path) -> None:
    events = read(raw, "kernel_log", "kernel/*.log")["gpu_event"]
    assert {31, 43, 45, 48, 63, 74, 79, 92, 94} <= set(events["xid_code"].drop_nulls())


def findings(connection: duckdb.DuckDBPyConnection) -> Sequence[tuple[str, str]]:
    return connection.sql("SELECT DISTINCT gpu_uuid[1], kind FROM finding ORDER BY ALL").fetchall()


def test_each_fault_that_slows_a_gpu_is_found_and_no_twin(subtests: pytest.Subtests) -> None:
    """Two nodes and two days: each kind has an hour and a quarter, effect 10 %."""
    world = simulate.build_world("faults", 1, 2, 2)
    tables = minutes.tables(world, 1)
    kinds = simulate.incidents.kinds()
    sick = {i.gpus[0].uuid: i.kind for i in world.incidents if kinds[i.kind].slows}
    with frames.judged(CATALOG, ["slow_gpu"], tables) as connection:
        found = findings(connection)
    for uuid, kind in sick.items():
        with subtests.test(kind):
            named = {"hbm_slow": "hbm_slow", "slow_compute": "slow_gpu"}.get(kind, "clock_deficit")
            assert {k for u, k in found if u == uuid} == {named}
    assert {u for u, _ in found} <= set(sick)


# Five readings of one H100 under a constant load, one a second: utkuozdemir/nvidia_gpu_exporter@
# e656cd8:internal/captures/linux-x86_64__nvidia-h100-80gb-hbm3__590.48.01.txt (MIT), `dmon`.
H100_POWER_W, H100_CLOCK_MHZ, H100_TEMP_C = (631, 634, 633, 634, 636), 1980, (63, 63, 64, 64, 65)
H100_MEMORY_CLOCK_MHZ = 2619
# No public capture of a busy GPU prints tensor or memory activity: their levels are assumed, and their scatter is
# that of the power readings, of which each minute takes another one.
TENSOR_RATIO, DRAM_RATIO = 0.4, 0.3
# Cores that finish less also fetch less; with less tensor work over the same traffic it would be the memory.
SLOW_CORES = "tensor_active_ratio dram_active_ratio"


def real_series(gpus: int, minutes: int) -> pl.DataFrame:
    """Minutes of a job whose GPUs read what that H100 did, each in an order of its own."""
    rows = [
        {"cluster": "c", "node": "n1", "gpu_uuid": f"GPU-{g}", "mig_instance": "", "gpu_model": "H100",
         "minute": m, "sample_count": 1, "gpu_busy_ratio": 1.0, "sm_clock_mhz": H100_CLOCK_MHZ,
         "memory_clock_mhz": H100_MEMORY_CLOCK_MHZ,
         "power_w": float(H100_POWER_W[(m * (g + 1) + g) % 5]),
         "tensor_active_ratio": TENSOR_RATIO * H100_POWER_W[(m * (g + 2) + g) % 5] / 634,
         "dram_active_ratio": DRAM_RATIO * H100_POWER_W[(m * (g + 3) + g) % 5] / 634,
         "gpu_temp_max_c": H100_TEMP_C[(m * (g + 1) + g) % 5]}
        for g in range(gpus) for m in range(minutes)
    ]  # fmt: skip
    start = pl.datetime(2026, 1, 5)
    return pl.DataFrame(rows).with_columns(
        (start + pl.duration(minutes="minute")).alias("minute_ts")
    )


@pytest.mark.parametrize(
    ("columns", "signal", "factor", "kind"),
    [
        ("sm_clock_mhz", "sm_clock_mhz", 0.95, "clock_deficit"),
        ("memory_clock_mhz", "memory_clock_mhz", 0.95, "hbm_slow"),
        ("dram_active_ratio", "dram_per_tensor_s", 1.12, "hbm_slow"),
        (SLOW_CORES, "tensor_rate_mhz", 0.88, "slow_gpu"),
        ("power_w", "power_w", 0.88, "slow_gpu"),
        ("sm_clock_mhz", "sm_clock_mhz", 0.98, None),
        ("memory_clock_mhz", "memory_clock_mhz", 0.99, None),
        (SLOW_CORES, "tensor_rate_mhz", 0.98, None),
        ("power_w", "power_w", 0.96, None),
    ],
)
def test_a_fault_injected_into_a_real_series(
    columns: str, signal: str, factor: float, kind: str | None
) -> None:
    """Six hours of it, the last 90 minutes sick: found within the hour, or below what can be seen."""
    series = real_series(8, 360)
    ill = (pl.col("gpu_uuid") == "GPU-3") & (pl.col("minute") >= 270)
    hurt = series.with_columns(
        pl.when(ill).then(pl.col(column) * factor).otherwise(column).alias(column)
        for column in columns.split()
    )
    held = pl.DataFrame(
        {"cluster": ["c"], "job_id": ["7"], "attempt": [1], "node": ["n1"], "gpu_count": [8.0]}
    ).with_columns(pl.datetime(2026, 1, 4).alias("start_ts"))
    tables = {"gpu_minute": hurt.drop("minute"), "gpu_allocation": held}
    with frames.judged(CATALOG, ["slow_gpu"], tables) as connection:
        assert findings(connection) == ([("GPU-3", kind)] if kind else [])
        late = connection.sql(
            "SELECT count(*) FROM finding WHERE detected_at > TIMESTAMP '2026-01-05 05:35:00'"
        ).fetchone()
        seen = connection.sql(
            "SELECT max(detectable_ratio) FROM gpu_deviation_5min "
            "WHERE gpu_uuid = 'GPU-3' AND signal = $1 AND witness = 'job'",
            params=[signal],
        ).fetchone()
    assert late == (0,)
    assert seen is not None
    assert (abs(1 - factor) >= seen[0]) == (kind is not None)
