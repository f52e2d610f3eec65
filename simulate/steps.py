"""What each rank lives through in the steps of a training job: the rows that step records become.

A rank's own time is forward, backward, waiting for input, optimizer, and whatever else happens to it.
The job's step takes as long as its slowest rank, plus pipeline bubbles and communication; the others
spend the difference waiting, in communication. How fast each GPU computes comes from the telemetry of
the same world (`Samples.compute`), so both tell of the same fault; what happens to hosts and batches
comes from the incidents (`Kind.lengthen`). Times are first taken once a minute, which says how far the
job gets; then the recorded steps are placed in time and lived through.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from .fleet import CLUSTER, Gpu, stream
from .incidents import Incident, kinds
from .jobs import Attempt
from .layout import Layout
from .telemetry import Samples

Times = NDArray[np.float64]

FORWARD_SHARE = 0.364  # of forward and backward: 0.220 and 0.386 s a microbatch in public trace AR
OPTIMIZER_SHARE, DATA_SHARE, LAUNCH_SHARE = (
    0.015,
    0.005,
    0.01,
)  # of computing; AR has 0.001 to 0.015
COMMUNICATION_SHARE = 0.08  # of computing, beside waiting: as Conditions.slack
BUBBLE_SHARE = 0.03  # of computing, per stage beyond the first
TOKENS = 32_768  # of a rank's share of the batch, where lengths are even
SKEW_S = 0.01  # NTP keeps hosts within about 10 ms; one host in fifty is seconds off
LONG_SKEW_S = 3.0


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Parts of steps in s, arrays of steps by ranks, for kinds to lengthen.

    ts_s       start of each step
    halted     the job does not step at this time: it evaluates
    forward_s, backward_s      on the device, gaps between kernels included
    launch_s   of forward and backward: the device had nothing issued to it
    tokens     of the rank's share of the batch
    together_s     by steps: communication and pipeline bubbles, beside waiting for each other
    """

    layout: Layout
    gpus: tuple[Gpu, ...]
    ts_s: Times
    halted: NDArray[np.bool_]
    forward_s: Times
    backward_s: Times
    launch_s: Times
    data_s: Times
    optimizer_s: Times
    checkpoint_s: Times
    other_s: Times
    tokens: Times
    together_s: Times

    def stretch(self, cells: tuple[NDArray[np.int64], ...], factor: Times | float) -> None:
        """Make forward and backward longer in the same proportion."""
        self.forward_s[cells] *= factor
        self.backward_s[cells] *= factor

    @property
    def own_s(self) -> Times:
        """What a rank takes before it waits for anybody."""
        data_s = 0 if self.layout.data_in_forward else self.data_s
        return (
            self.forward_s + self.backward_s + data_s + self.optimizer_s + self.checkpoint_s
            + self.other_s
        )  # fmt: skip

    @property
    def job_s(self) -> Times:
        """Length of each step."""
        slowest: Times = self.own_s.max(axis=1)
        return slowest + self.together_s


def step_sample(
    samples: Samples,
    layouts: Mapping[Attempt, Layout],
    incidents: Sequence[Incident],
    seed: int,
) -> pl.DataFrame:
    """Rows of step_sample for the jobs that have a layout."""
    frames = [
        _records(attempt, layout, samples, incidents, seed) for attempt, layout in layouts.items()
    ]
    rows = [frame for frame in frames if frame.height]
    return pl.concat(rows) if rows else pl.DataFrame()


def _records(
    attempt: Attempt, layout: Layout, samples: Samples, incidents: Sequence[Incident], seed: int
) -> pl.DataFrame:
    place = {gpu.uuid: number for number, gpu in enumerate(samples.gpus)}
    mine = np.array([place[gpu.uuid] for gpu in attempt.gpus])
    clock_s = samples.ts_s[:, mine[0]]
    rows = np.flatnonzero((clock_s >= attempt.begin_s) & (clock_s < (attempt.end_s or np.inf)))
    speed = samples.compute[np.ix_(rows, mine)].astype(np.float64)
    rows, speed = rows[np.isfinite(speed).all(axis=1)], speed[np.isfinite(speed).all(axis=1)]
    if rows.size < 2:
        return pl.DataFrame()
    minute_s = clock_s[rows]
    random = stream(seed, f"steps of {attempt.job_id} {attempt.attempt}")
    speed *= 1 + layout.rank_spread * random.standard_normal(layout.ranks)
    speed *= np.array(layout.stage_work)[list(layout.stage)]
    here = [i for i in incidents if set(i.gpus) & set(attempt.gpus)]

    def lived(ts_s: Times) -> StepTimes:
        nearest = np.clip(np.searchsorted(minute_s, ts_s, side="right") - 1, 0, None)
        return _lived(attempt, layout, ts_s, speed[nearest], here, random)

    rough = lived(minute_s)
    every_s = float(np.median(np.diff(minute_s)))
    done = np.cumsum(np.where(rough.halted, 0, every_s / rough.job_s))
    stride = max(1, round(layout.record_every_s / float(np.median(rough.job_s))))
    numbers = np.arange(stride, done[-1], stride)
    times = lived(np.interp(numbers, done, minute_s))
    return _frame(attempt, times, numbers.astype(np.int64), random)


def _lived(
    attempt: Attempt,
    layout: Layout,
    ts_s: Times,
    speed: Times,
    incidents: Sequence[Incident],
    random: np.random.Generator,
) -> StepTimes:
    """The steps that begin at `ts_s`; `speed` is each rank's computing time, of the nominal."""
    shape = speed.shape
    shared = COMMUNICATION_SHARE + BUBBLE_SHARE * (layout.pp - 1)
    common = 1 + layout.job_noise * random.standard_normal((shape[0], 1))
    compute_s = layout.compute_s * speed * common
    compute_s *= 1 + layout.rank_noise * random.standard_normal(shape)

    def small(share: float) -> Times:
        """A part that has nothing to do with the GPU's speed."""
        return layout.compute_s * share * random.uniform(0.5, 1.5, shape)

    times = StepTimes(
        layout=layout,
        gpus=attempt.gpus,
        ts_s=ts_s,
        halted=np.zeros(shape[0], dtype=np.bool_),
        forward_s=FORWARD_SHARE * compute_s,
        backward_s=(1 - FORWARD_SHARE) * compute_s,
        launch_s=small(LAUNCH_SHARE),
        data_s=small(DATA_SHARE),
        optimizer_s=small(OPTIMIZER_SHARE),
        checkpoint_s=np.zeros(shape),
        other_s=small(OPTIMIZER_SHARE),
        tokens=np.full(shape, float(TOKENS)),
        together_s=np.full(shape[0], shared * layout.compute_s),
    )
    for incident in incidents:
        first, last = np.searchsorted(ts_s, (incident.start_s, incident.end_s))
        ranks = np.array([n for n, gpu in enumerate(attempt.gpus) if gpu in incident.gpus])
        if first < last:
            cells = np.ix_(np.arange(first, last), ranks)
            kinds()[incident.kind].lengthen(times, cells, incident, random)
    if layout.data_in_forward:
        times.forward_s[:] += times.data_s
    return times


def _frame(
    attempt: Attempt, times: StepTimes, numbers: NDArray[np.int64], random: np.random.Generator
) -> pl.DataFrame:
    """One row per rank and recorded step, without those that fall into a halt."""
    layout = times.layout
    kept = np.flatnonzero(~times.halted)
    nodes = sorted(set(attempt.node_names))
    skew_s = random.normal(0, SKEW_S, len(nodes)) + LONG_SKEW_S * (random.random(len(nodes)) < 0.02)
    skew_of = dict(zip(nodes, skew_s, strict=True))
    skew = np.array([skew_of[gpu.node] for gpu in attempt.gpus])
    step_s = np.broadcast_to(times.job_s[:, None], times.own_s.shape)
    parts = {
        "step_s": step_s,
        "compute_s": times.forward_s + times.backward_s,
        "forward_s": times.forward_s,
        "backward_s": times.backward_s,
        "communication_s": step_s - times.own_s,
        "optimizer_s": times.optimizer_s,
        "other_s": times.other_s,
        "data_s": times.data_s,
        "launch_s": times.launch_s,
        "checkpoint_s": times.checkpoint_s,
    }
    count, ranks = kept.size, layout.ranks
    tokens = times.tokens[kept].ravel().astype(np.int64) if layout.records_tokens else None

    def per_rank(values: Sequence[object], dtype: type[pl.DataType]) -> pl.Series:
        return pl.Series(values, dtype=dtype).gather(np.tile(np.arange(ranks), count))

    ts = times.ts_s[kept, None] + skew[None, :]
    return pl.DataFrame(
        {
            "cluster": pl.repeat(CLUSTER, count * ranks, eager=True),
            "job_id": pl.repeat(str(attempt.job_id), count * ranks, eager=True),
            "attempt": pl.repeat(attempt.submit_s, count * ranks, dtype=pl.Int64, eager=True),
            "rank": per_rank(range(ranks), pl.Int32),
            "step": np.repeat(numbers[kept], ranks),
            "ts": pl.Series((ts * 1e6).astype(np.int64).ravel()).cast(pl.Datetime("us")),
            "time_basis": pl.repeat("absolute", count * ranks, eager=True),
            "dp_rank": per_rank(layout.dp_rank, pl.Int32),
            "pp_stage": per_rank(layout.stage, pl.Int32),
            "tp_rank": per_rank(layout.tp_rank, pl.Int32),
            "node": per_rank([gpu.node for gpu in attempt.gpus], pl.String),
            "gpu_uuid": per_rank([gpu.uuid for gpu in attempt.gpus], pl.String),
            "tokens": tokens
            if tokens is not None
            else pl.repeat(None, count * ranks, dtype=pl.Int64, eager=True),
            **{name: np.round(values[kept].ravel(), 6) for name, values in parts.items()},
        }
    )
