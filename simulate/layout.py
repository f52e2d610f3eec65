"""How a training job is split over its GPUs, how long its steps are, and what its records hold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Layout:
    """One job's shape. Ranks are in Megatron-LM's order: tensor, then data, then pipeline.

    pp, tp            pipeline stages, tensor-parallel ranks
    compute_s         forward and backward of a step on a healthy GPU
    record_every_s    a step is recorded about this often
    rank_noise        standard deviation of a rank's step, around what its peers take
    job_noise         the same of the whole job's steps, common to all ranks
    rank_spread       lasting differences between healthy ranks, one standard deviation
    stage_work        work of each stage by that of the lightest, as a rule within a few percent
    data_in_forward   waiting for input counts as forward time, as Megatron-LM's timers nest it
    records_tokens    records say how many tokens a rank's share of the batch has
    """

    ranks: int
    pp: int
    tp: int
    compute_s: float
    record_every_s: float
    rank_noise: float
    job_noise: float
    rank_spread: float
    stage_work: tuple[float, ...]
    data_in_forward: bool
    records_tokens: bool

    @property
    def dp(self) -> int:
        return self.ranks // self.pp // self.tp

    @property
    def stage(self) -> tuple[int, ...]:
        """Pipeline stage of each rank."""
        return tuple(rank * self.pp // self.ranks for rank in range(self.ranks))

    @property
    def tp_rank(self) -> tuple[int, ...]:
        """Place of each rank in its tensor-parallel group."""
        return tuple(rank % self.tp for rank in range(self.ranks))

    @property
    def dp_rank(self) -> tuple[int, ...]:
        """Place of each rank in its data-parallel group."""
        return tuple(rank // self.tp % self.dp for rank in range(self.ranks))


def draw(ranks: int, random: np.random.Generator, *, records_tokens: bool) -> Layout:
    """A layout for a number of GPUs, and levels of length and noise.

    Of the public traces AR and ST (samples/collectives/straggler_whatif; 24 ranks, 76 steps): a
    healthy rank's step wanders around its stage's median by 0.2 to 0.5 % (one sigma), medians of ranks
    of one stage differ by up to 0.9 %, stages of equal layers by up to 5 %, the stage's median wanders
    by 0.7 to 2.5 % from step to step; steps take 2.2 and 46.6 s. Healthy step-time series wander by up
    to 3.6 % (Mixtral, samples/training), BLOOM's steps took 105 to 111 s. Drawn here: rank noise 0.3 to
    2 %, so up to four times the traces', job noise 0.5 to 4 %, computing 4 to 90 s a step.
    """
    choices = [pp for pp in (1, 1, 2, 4, 8) if ranks >= 8 * min(pp, 4) // 2]
    pp = int(random.choice(choices))
    tp = int(random.choice([tp for tp in (1, 2, 4) if pp * tp <= ranks // 2] or [1]))
    compute_s = float(np.exp(random.uniform(np.log(4), np.log(90))))
    return Layout(
        ranks=ranks,
        pp=pp,
        tp=tp,
        compute_s=compute_s,
        record_every_s=max(compute_s, float(np.exp(random.uniform(np.log(45), np.log(300))))),
        rank_noise=float(np.exp(random.uniform(np.log(0.003), np.log(0.02)))),
        job_noise=float(np.exp(random.uniform(np.log(0.005), np.log(0.04)))),
        rank_spread=0.003,
        stage_work=tuple(float(w) for w in 1 + random.choice((0.0, 0.01, 0.05)) * random.random(pp)),
        data_in_forward=bool(random.random() < 0.5),
        records_tokens=records_tokens,
    )  # fmt: skip
