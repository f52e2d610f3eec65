"""From objects of `squeue|sinfo|scontrol --json` and slurmrestd to the fields text would print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._json_values import part, text
from ._slurm_json import is_infinite, number, tres_text, words

Fields = dict[str, str | None]


def node(record: Mapping[str, Any]) -> Fields:
    """An entry of `nodes`."""
    load = number(record.get("cpu_load"))
    gres = record.get("gres")
    return {
        "node": text(record.get("name")),
        "state": "+".join([*words(record.get("state")), *words(record.get("state_flags"))]) or None,
        "reason": text(record.get("reason")),
        "reason_user": text(record.get("reason_set_by_user")),
        "reason_ts": _whole(record.get("reason_changed_at")),
        "tres": tres_text(record.get("tres")),
        "tres_used": (tres_text(record["tres_used"]) or "") if "tres_used" in record else None,
        "gres": gres if isinstance(gres, str) else None,
        "gres_used": text(record.get("gres_used")),
        "cpus": _whole(record.get("cpus")),
        "cpus_used": _whole(record.get("alloc_cpus")),
        # Hundredths of the load average (slurm: slurm/slurm.h, node_info_t.cpu_load).
        "load": None if load is None else str(load / 100),
        "mem_mib": _whole(record.get("real_memory")),
        "mem_used_mib": _whole(record.get("alloc_memory")),
        "free_mib": _whole(_first(record, "free_mem", "free_memory")),
        "partitions": ",".join(words(record.get("partitions"))),
        "features": ",".join(words(record.get("active_features"))),
        "reservation": text(record.get("reservation")),
        "boot_ts": _whole(record.get("boot_time")),
        "agent_start_ts": _whole(record.get("slurmd_start_time")),
        "version": text(_first(record, "version", "slurmd_version")),
    }


def job(record: Mapping[str, Any]) -> Fields:
    """An entry of `jobs` as squeue has it."""
    limit = record.get("time_limit")
    minutes = _whole(limit)
    return {
        "job_id": _job_id(record),
        "raw_job_id": _whole(record.get("job_id")),
        "name": text(record.get("name")),
        "principal": text(record.get("user_name")),
        "account": text(record.get("account")),
        "partition": text(record.get("partition")),
        "qos": text(record.get("qos")),
        "reservation": text(record.get("resv_name")),
        "dependency": text(record.get("dependency")),
        "state": "+".join(words(record.get("job_state"))),
        "reason": text(record.get("state_reason")),
        "priority": _whole(record.get("priority")),
        "restarts": _whole(record.get("restart_cnt")),
        "node_count": _whole(record.get("node_count")),
        "cpus": _whole(record.get("cpus")),
        "req_tres": text(record.get("tres_req_str")),
        "alloc_tres": text(record.get("tres_alloc_str")),
        "tres_per_job": text(record.get("tres_per_job")),
        "tres_per_node": text(record.get("tres_per_node")),
        "tres_per_task": text(record.get("tres_per_task")),
        "tasks": _whole(record.get("tasks")),
        "nodes": text(record.get("nodes")) or text(part(record, "job_resources", "nodes", "list")),
        "gres_detail": ";".join(words_of_details(record.get("gres_detail"))) or None,
        "limit": "UNLIMITED" if is_infinite(limit) else f"{minutes}:00" if minutes else None,
        "submit_ts": _whole(record.get("submit_time")),
        "eligible_ts": _whole(record.get("eligible_time")),
        "start_ts": _whole(record.get("start_time")),
    }


def words_of_details(value: object) -> list[str]:
    """Texts such as `gpu:h100:2(IDX:0,3)`, which hold commas."""
    return (
        [entry for entry in value if isinstance(entry, str) and entry]
        if isinstance(value, list)
        else []
    )


def _job_id(record: Mapping[str, Any]) -> str | None:
    own = _whole(record.get("job_id"))
    array, het = _whole(record.get("array_job_id")), _whole(record.get("het_job_id"))
    if array not in {None, "0"}:
        task = _whole(record.get("array_task_id"))
        waiting = text(record.get("array_task_string"))
        if waiting:
            return f"{array}_[{waiting.strip('[]')}]"
        return own if task is None else f"{array}_{task}"
    if het not in {None, "0"}:
        return f"{het}+{_whole(record.get('het_job_offset')) or 0}"
    return own


def partition(record: Mapping[str, Any]) -> Fields:
    """An entry of `partitions`."""
    minutes = {
        name: number(value) for name, value in
        (("max", part(record, "maximums", "time")), ("default", part(record, "defaults", "time")))
    }  # fmt: skip
    return {
        "partition": text(record.get("name")),
        "state": "+".join(words(part(record, "partition", "state"))) or None,
        "nodes": text(part(record, "nodes", "configured")),
        "node_count": _whole(part(record, "nodes", "total")),
        "cpus": _whole(part(record, "cpus", "total")),
        "tres": tres_text(part(record, "tres", "configured")),
        "max_time": None if minutes["max"] is None else f"{int(minutes['max'])}:00",
        "default_time": None if minutes["default"] is None else f"{int(minutes['default'])}:00",
        "max_nodes": _whole(part(record, "maximums", "nodes")),
        "priority_tier": _whole(part(record, "priority", "tier")),
        "priority_factor": _whole(part(record, "priority", "job_factor")),
        "grace": _whole(record.get("grace_time")),
        "qos": text(part(record, "qos", "assigned")),
    }


def reservation(record: Mapping[str, Any]) -> Fields:
    """An entry of `reservations`."""
    return {
        "reservation": text(record.get("name")),
        "nodes": text(record.get("node_list")),
        "node_count": _whole(record.get("node_count")),
        "cores": _whole(record.get("core_count")),
        "tres": tres_text(record.get("tres")),
        "start": _whole(record.get("start_time")),
        "end": _whole(record.get("end_time")),
        "partition": text(record.get("partition")),
        "flags": ",".join(words(record.get("flags"))),
        "users": text(record.get("users")),
        "accounts": text(record.get("accounts")),
    }


def _first(record: Mapping[str, Any], *keys: str) -> object:
    return next((record[key] for key in keys if key in record), None)


def _whole(value: object) -> str | None:
    found = number(value)
    return None if found is None else str(int(found))
