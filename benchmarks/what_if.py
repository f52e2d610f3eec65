"""What-if analysis of training traces: a public one, and one of ten million operations.

The peer is ByteDance-Seed/StragglerAnalysis@8efcd7f, `analyzer/wia.py`. It needs pandas 2, which is
not installed here, so the figures are ratios to REF. On the same kind of machine it took 2.56 CPU s
for trace AR, whole process, where REF did 239,000 lines per CPU second (medians): 0.19 REF. So 0.6 of
its CPU time is 0.32 REF, and 0.3 of it 0.64 REF. Of our own CPU time half is start-up: the imports of
Polars, NumPy and DuckDB. Bytecode is written before the clock starts, as it is on any machine that has
run the command once; compiling at every start would double the time.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import polars as pl

from .workload import Goal, Workload, environment

AR = Path(str(files("fleetmark.samples"))) / "collectives" / "straggler_whatif" / "trace-AR.parquet"
PEAK_LIMIT_BYTES = 2 << 30
# Trace AR has 16 traced ranks and 44 steps: 64 copies of its ranks and 16 of its steps once more
# make 1,024 ranks x 60 steps.
RANK_COPIES, MORE_STEPS = 64, 16
# In a process of its own: start and imports count, as they do for the peer.
ANALYSIS = """
import sys
from pathlib import Path
import polars as pl
from fleetmark.ingest.collectives.straggler_trace import straggler_trace
from fleetmark.models.collectives.what_if_step import PARAMS, replayed
from fleetmark.source import Context

path, steps = Path(sys.argv[1]), int(sys.argv[2])
stated = {o.name: o.default for o in straggler_trace.options if o.default} | {"job_id": "J"}
parsed = straggler_trace.parse(pl.scan_parquet(path), Context(path.name, stated))
found = replayed(parsed.tables["trace_op"].lazy(), *(p.default for p in PARAMS.values()))
sys.exit(found["no_delay_s"].drop_nulls().len() != steps)
"""


def public(folder: Path, _scale: float) -> Path:
    """Trace AR, whatever the scale."""
    path = Path(shutil.copy(AR, folder / AR.name))
    analyse(path)
    return path


def large(folder: Path, scale: float) -> Path:
    """10.2 million operations of 1,024 ranks at scale 1."""
    one = pl.read_parquet(AR).with_columns(pl.col("optype").cast(pl.String))
    copies = max(1, round(RANK_COPIES * scale))
    columns = pl.col("dp_rank").n_unique()
    ranks = pl.concat(
        one.with_columns(
            (pl.col("dp_rank") + columns * n).cast(pl.Int16).alias("dp_rank"),
            (pl.col("rank").cast(pl.Int32) + 64 * n).alias("rank"),
        )
        for n in range(copies)
    )
    more = one["step"].unique().sort().head(MORE_STEPS)
    again = ranks.filter(pl.col("step").is_in(more.implode()))
    path = folder / "trace-large.parquet"
    pl.concat([ranks, again.with_columns(pl.col("step") + 100_000)]).write_parquet(path)
    return path


def analyse(path: Path) -> int:
    """Parquet to the table `what_if_step`; raises RuntimeError unless every step was replayed."""
    trace = pl.scan_parquet(path)
    steps = trace.select(pl.col("step").n_unique()).collect().item()
    done = subprocess.run(
        [sys.executable, "-c", ANALYSIS, str(path), str(steps)],
        capture_output=True, text=True, check=False, env=environment(),
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr or "not every step was replayed")
    operations: int = trace.select(pl.len()).collect().item()
    return operations


PUBLIC = Workload(
    name="what_if",
    doc="public trace AR (117,216 operations), Parquet to step times without stragglers and with each "
    "of their causes alone; the process's start and imports included",
    unit="operations",
    prepare=public,
    run=analyse,
    goals=(Goal("x REF", 0.32, 0.64),),
    grows=False,
)

LARGE = Workload(
    name="what_if_large",
    doc="the same over 10.2 million operations, 1,024 ranks x 60 steps made of trace AR's",
    unit="operations",
    prepare=large,
    run=analyse,
    peak_limit_bytes=PEAK_LIMIT_BYTES,
)
