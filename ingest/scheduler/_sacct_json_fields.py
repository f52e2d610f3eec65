"""From a job of `sacct --json` to the fields that `sacct --parsable2` would print for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .._json_values import part, text
from ._slurm_json import exit_text, is_infinite, number, tres_text, words

_TIMES = (("submit", "submission"), ("eligible", "eligible"), ("start", "start"), ("end", "end"))


def rows_of(job: Mapping[str, Any]) -> Iterator[dict[str, str | None]]:
    """Fields (sacct's names, lower case) of the job and of each of its steps."""
    job_id = _job_id(job)
    yield _job(job, job_id)
    steps = job.get("steps")
    for step in steps if isinstance(steps, list) else ():
        if isinstance(step, Mapping):
            yield _step(step, job, job_id)


def _job_id(job: Mapping[str, Any]) -> str | None:
    """As sacct shows it: `15_0` in an array, `15_[3-9]` for waiting tasks, `19+1` in a het job."""
    own = number(job.get("job_id"))
    array, het = (
        number(part(job, "array", "job_id")),
        number(part(job, "het", "job_id")),
    )
    if array:
        task = number(part(job, "array", "task_id"))
        if task is not None:
            return f"{array}_{task}"
        if waiting := text(part(job, "array", "task")):
            return f"{array}_[{waiting.strip('[]')}]"
    if het:
        return f"{het}+{number(part(job, 'het', 'job_offset')) or 0}"
    return None if own is None else str(own)


def _job(job: Mapping[str, Any], job_id: str | None) -> dict[str, str | None]:
    state = _state(part(job, "state", "current"))
    limit = part(job, "time", "limit")
    return {
        "jobid": job_id,
        "jobidraw": _whole(job.get("job_id")),
        "jobname": text(job.get("name")),
        "user": text(job.get("user")) or text(part(job, "association", "user")),
        "account": text(job.get("account")),
        "partition": text(job.get("partition")),
        "qos": text(job.get("qos")),
        "cluster": text(job.get("cluster")),
        "reservation": text(part(job, "reservation", "name")),
        "reason": text(part(job, "state", "reason")),
        "state": state,
        "exitcode": _exit(job.get("exit_code"), state),
        "derivedexitcode": exit_text(job.get("derived_exit_code")),
        "priority": _whole(job.get("priority")),
        "restarts": _whole(job.get("restart_cnt")),
        "sluid": text(job.get("sluid")),
        **{name: _whole(part(job, "time", key)) for name, key in _TIMES},
        "elapsedraw": _whole(part(job, "time", "elapsed")),
        "suspended": _duration(part(job, "time", "suspended")),
        "timelimitraw": "UNLIMITED" if is_infinite(limit) else _whole(limit),
        "nodelist": text(job.get("nodes")),
        "allocnodes": _whole(job.get("allocation_nodes")),
        "reqcpus": _whole(part(job, "required", "CPUs")),
        "alloctres": tres_text(part(job, "tres", "allocated")),
        "reqtres": tres_text(part(job, "tres", "requested")),
        "gresused": text(job.get("used_gres")),
    }


def _step(
    step: Mapping[str, Any], job: Mapping[str, Any], job_id: str | None
) -> dict[str, str | None]:
    """A step's name stands alone in old releases (`batch`, 0), behind its job's id in later ones."""
    name = str(part(step, "step", "id")).rpartition(".")[2]
    state = _state(step.get("state"))
    start = _whole(part(step, "time", "start"))
    return {
        "jobid": f"{job_id}.{name}",
        "jobidraw": f"{_whole(job.get('job_id'))}.{name}",
        "jobname": text(part(step, "step", "name")),
        "cluster": text(job.get("cluster")),
        "state": state,
        "exitcode": _exit(step.get("exit_code"), state),
        # sacct prints a step's start as its time of submission.
        "submit": start,
        "start": start,
        "end": _whole(part(step, "time", "end")),
        "elapsedraw": _whole(part(step, "time", "elapsed")),
        "suspended": _duration(part(step, "time", "suspended")),
        "nodelist": text(part(step, "nodes", "range")),
        "alloctres": tres_text(part(step, "tres", "allocated")),
        "maxrss": _max_rss(step),
    }


def _state(value: object) -> str | None:
    return "+".join(words(value)) or None


def _exit(code: object, state: str | None) -> str | None:
    """A completed job or step ended with 0; of others see `exit_text`."""
    known = exit_text(code)
    return "0:0" if known is None and code is not None and state == "COMPLETED" else known


def _whole(value: object) -> str | None:
    found = number(value)
    return None if found is None else str(int(found))


def _duration(value: object) -> str | None:
    seconds = number(value)
    return None if seconds is None else f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def _max_rss(step: Mapping[str, Any]) -> str | None:
    """Bytes; `requested.max` is sacct's TRESUsageInMax."""
    entries = part(step, "tres", "requested", "max")
    for entry in entries if isinstance(entries, list) else ():
        if part(entry, "type") == "mem":
            return _whole(part(entry, "count"))
    return None
