"""The goodput ledger where records are sparse: every tenth step, five-minute windows, noise of ranks."""

from __future__ import annotations

import pytest

from tests.ledger_rows import KEY, at, attempt, built, event, library_s, seconds, step


def test_a_log_of_every_tenth_step_begins_behind_the_checkpoint() -> None:
    """Step 33 of 40 is saved; the next attempt's first row, step 40, stands for 34 to 40, not 31 to 40."""
    rows = [step(n, 100 + 10 * n - 10, 10) for n in (10, 20, 30, 40)]
    rows += [step(40, 760, 10, attempt=2), step(50, 860, 10, attempt=2)]
    attempts = [attempt(0, 0, 500, "NODE_FAIL"), attempt(600, 600, 870)]
    saved = [event("checkpoint_saved", 430, step=33)]
    done = built({"job_attempt": attempts, "train_step": rows, "train_event": saved})
    assert seconds(done["goodput_segment"]) == {
        "init": 100,
        "productive": 330 + 170,
        "lost_work": 70,
        "restart": 100,
    }


def test_idleness_begins_and_ends_between_windows() -> None:
    """Steps end at 200 s, the attempt at 1000 s; of five-minute windows only two are idle as a whole."""
    idle = [
        {**KEY, "attempt": 0, "window_ts": at(s), "gpu_count": 8, "idle_gpu_count": 8,
         "throttled_nodes": [], "degraded_nodes": [], "is_throttled": False}
        for s in (300, 600)
    ]  # fmt: skip
    rows = [step(n, 90 + 10 * n, 10) for n in range(1, 11)]
    done = built(
        {"job_attempt": [attempt(0, 0, 1_000)], "train_step": rows, "job_telemetry_5min": idle}
    )
    assert seconds(done["goodput_segment"]) == {"init": 100, "productive": 100, "idle": 800}


def test_noise_of_communication_is_no_stall() -> None:
    """One rank is 2 s late in a step whose communication is 0.07 s, 0.7 % of the step, over the usual."""
    parts = [
        {**KEY, "attempt": 0, "step": n, "ts": at(10 * n + (2 if n > 20 else 0)), "rank_count": 8,
         "step_s": 12.0 if n == 20 else 10.0, "communication_s": 1.07 if n == 20 else 1.0,
         "straggler_s": 2.0 if n == 20 else 0.0, "straggler_rank": 3 if n == 20 else None}
        for n in range(40)
    ]  # fmt: skip
    done = built({"job_attempt": [attempt(0, 0, 402)], "job_step_parts": parts})
    assert seconds(done["goodput_segment"]) == pytest.approx({"productive": 400, "straggler": 2})


def test_bloom_worked_87_of_100_days() -> None:
    """BLOOM-176B's chronicle: 72,681 iterations of 105.2 s in 102 days are 86.8 % of them.

    Constructed from that: one row in a hundred steps, as if all the standing still came at the end.
    """
    numbers = [*range(100, 72_681, 100), 72_681]
    midnight_s = 7_200
    rows = [step(n, midnight_s + (n - 1) * 105.2, 105.2) for n in numbers]
    held_s = 102 * 86_400
    done = built(
        {"job_attempt": [attempt(0, midnight_s, midnight_s + held_s)], "train_step": rows}
    )["goodput_segment"]
    assert library_s(done) / held_s == pytest.approx(0.868, abs=0.0005)
    assert sum(seconds(done).values()) == held_s
