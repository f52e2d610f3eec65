"""Slow ranks and steps on public records: what their authors, or the runs' owners, found.

Traces AR and ST with the results of their authors' replay (ByteDance-Seed/StragglerAnalysis@data),
step times of four healthy runs and of BLOOM's silent slowdown (samples/training/SOURCES.md), Flight
Recorder dumps of jobs with injected faults (samples/collectives/SOURCES.md).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from fleetmark.accuracy.interval import Measured, exact, nothing, share
from fleetmark.accuracy.scratch import Inputs, judged, rows
from fleetmark.catalog import load_catalog

SAMPLES = Path(str(files("fleetmark.samples")))
TRACES = SAMPLES / "collectives" / "straggler_whatif"
DUMPS = SAMPLES / "collectives" / "fr_traces"
LOGS = SAMPLES / "training"
PUBLISHED = {"AR": {0}, "ST": set[int]()}
MIXTRAL = "mixtral_8x7b_alltoall_tp2pp4ep4_release_sm.golden_values_dev_dgx_h100.json"
HEALTHY = {
    "megatron_golden": ["gpt3_15b_8t_release_sm.golden_values_lts_dgx_a100.json", MIXTRAL],
    "mlperf": ["tyche_ngpu512_llama31_405b_result_0.txt", "uf_b200_n16_llama31_8b_result_1.txt"],
}
# A slowdown of the Mixtral run starts at one of these places of its 263 logged steps: behind the 40
# that hold its slow start and a first baseline, and 20 before the end.
MIXTRAL_STARTS, INJECTED = range(40, 243), 1.10
# A finding of a whole job names no rank, and unnest gives no row for it.
ACCUSED = """
SELECT DISTINCT cluster[1] AS name, unnest(rank) AS rank
FROM lake.finding WHERE domain = 'performance'
"""
SLOWDOWNS = """
SELECT cluster[1] AS cluster, job_id[1] AS job_id, (evidence ->> 'evidence_step')::BIGINT AS evidence_step,
    (evidence ->> 'step')::BIGINT AS step, (evidence ->> 'delay_count')::BIGINT AS delay_count
FROM lake.finding WHERE detector = 'whole_job_slowdown'
"""
PARTS = {
    "dp_rank": "blocking_decompose_by_dp_rank",
    "pp_stage": "blocking_decompose_by_stage",
    "op": "blocking_decompose_by_optype",
}


def measured(folder: Path) -> Mapping[str, Measured]:
    """Every figure that needs no simulator; nothing here depends on a seed."""
    return {
        **_traces(folder / "traces"),
        **_series(folder / "series"),
        **_hangs(folder / "hangs"),
    }


def _traces(root: Path) -> Mapping[str, Measured]:
    inputs: Inputs = [
        ("straggler_trace", [TRACES / f"trace-{name}.parquet"], {"cluster": name})
        for name in PUBLISHED
    ]
    accused: dict[str, set[int]] = {name: set() for name in PUBLISHED}
    with judged(root, inputs, ()) as store:
        for name, rank in rows(store, ACCUSED).iter_rows():
            accused[name].add(rank)
        ours = {
            (job, part, name): (ratio, explained, launch)
            for job, part, name, ratio, explained, launch in rows(
                store,
                "SELECT job_id, part, part_id, slowdown_ratio, explained_ratio, launch_ratio "
                "FROM lake.what_if",
            ).iter_rows()
        }
    equal = sum(accused[name] == truth for name, truth in PUBLISHED.items())
    errors = [error for name in PUBLISHED for error in _errors(name, ours)]
    return {
        "published_verdicts": exact(equal / len(PUBLISHED), len(PUBLISHED)),
        "what_if_relative_error": exact(max(errors), len(errors)),
    }


Ratios = Mapping[tuple[str, str, str], tuple[float, float, float]]


def _errors(job: str, ours: Ratios) -> Iterator[float]:
    """Relative errors of S, the launch slowdown, S of every part, M_W and M_S."""
    result = _published(f"result-{job}")
    whole = ours[job, "job", "all"]
    yield abs(whole[0] / result["blocking_slowdown"] - 1)
    yield abs(whole[2] / result["launch_slowdown"] - 1)
    for part, key in PARTS.items():
        for name, ratio in result[key].items():
            yield abs(ours[job, part, name][0] / ratio - 1)
    for part, file, key in (("slowest_ranks", "mw", "Mw"), ("last_stage", "ms", "Ms")):
        (explained,) = (v[1] for k, v in ours.items() if k[:2] == (job, part))
        yield abs(explained / _published(f"{file}-{job}")[key] - 1)


def _published(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((TRACES / f"{name}.json").read_text("utf-8"))
    return found


def _series(root: Path) -> Mapping[str, Measured]:
    """Step-time findings: on healthy runs, on BLOOM's, and on Mixtral's made slower."""
    injected = dict(_slowed(root))
    inputs: Inputs = [
        *(
            (name, [LOGS / f for f in logs], {"cluster": "healthy"})
            for name, logs in HEALTHY.items()
        ),
        (
            "train_log",
            [LOGS / "bloom_176b_iteration_lines.log"],
            {"cluster": "bloom", "job_id": "bloom"},
        ),
        ("megatron_golden", [path for path, _ in injected.values()], {"cluster": "injected"}),
    ]
    with judged(root / "store", inputs, ("whole_job_slowdown",)) as store:
        found = rows(store, SLOWDOWNS).rows(named=True)
    alarms = [row for row in found if row["cluster"] == "healthy"]
    delays = [row["delay_count"] for row in found if row["cluster"] == "bloom"]
    seen = {
        row["job_id"] for row in found
        if row["cluster"] == "injected" and row["evidence_step"] >= injected[row["job_id"]][1]
    }  # fmt: skip
    return {
        "healthy_series_false_alarms": exact(len(alarms), sum(map(len, HEALTHY.values()))),
        "bloom_silent_step_delay": exact(delays[0], 1)
        if len(delays) == 1
        else nothing("not found once"),
        "mixtral_warm_up_recall": share(len(seen), len(injected)),
    }


def _slowed(root: Path) -> Iterator[tuple[str, tuple[Path, int]]]:
    """Copies of the Mixtral run, slower from some step on: by job, the file and that step."""
    values = json.loads((LOGS / MIXTRAL).read_text("utf-8"))["iteration-time"]["values"]
    logged = [(int(step), value) for step, value in values.items() if value != "nan"]
    root.mkdir(parents=True, exist_ok=True)
    for start in MIXTRAL_STARTS:
        series = {
            str(step): value * (INJECTED if place >= start else 1)
            for place, (step, value) in enumerate(logged)
        }
        path = root / f"slow-from-{start}.golden_values.json"
        path.write_text(json.dumps({"iteration-time": {"values": series}}), "utf-8")
        yield f"slow-from-{start}", (path, logged[start][0])


def _hangs(root: Path) -> Mapping[str, Measured]:
    """Ranks that findings of kind hang name, against those that a fault was injected on."""
    if not any(d.card.kind == "hang" for d in load_catalog().detectors.values()):
        return {"hang_ranks_found": nothing("no detector of kind hang")}
    jobs = sorted(path for path in DUMPS.iterdir() if path.is_dir())
    truth = {job.name: _injected(job / "fault_injection.log") for job in jobs}
    inputs: Inputs = [
        ("flight_recorder", sorted(job.glob("_dump_*")), {"cluster": job.name, "job_id": job.name})
        for job in jobs
    ]
    accused: dict[str, set[int]] = {name: set() for name in truth}
    with judged(root, inputs, ()) as store:
        for name, rank in rows(store, f"{ACCUSED} AND kind = 'hang'").iter_rows():
            accused[name].add(rank)
    injected = sum(map(len, truth.values()))
    found = sum(len(accused[name] & ranks) for name, ranks in truth.items())
    false = sum(len(accused[name] - ranks) for name, ranks in truth.items())
    return {"hang_ranks_found": exact(found / injected if not false else 0.0, injected)}


def _injected(log: Path) -> set[int]:
    return {int(rank) for rank in re.findall(r"\d+", log.read_text("utf-8").split("\n")[0])}
