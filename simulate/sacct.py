"""Slurm accounting as `sacct` prints it.

    TZ=UTC SLURM_TIME_FORMAT=%s sacct -a -X -D --array --noconvert --parsable2 -o COLUMNS

run at the end of the window. Shapes follow Slurm 22.05: `None` and `Unknown` for times that are not,
`None assigned`, `CANCELLED by UID`, one record per run of a requeued job.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from .fleet import CLUSTER, GRES_MODEL
from .jobs import Attempt

COLUMNS = ("JobID", "JobIDRaw", "User", "UID", "Account", "Partition", "QOS", "Cluster", "State",
           "ExitCode", "Reason", "Submit", "Eligible", "Start", "End", "Elapsed", "ElapsedRaw",
           "TimelimitRaw", "Suspended", "NNodes", "NodeList", "AllocCPUS", "ReqTRES", "AllocTRES",
           "CPUTimeRAW", "Priority", "JobName")  # fmt: skip
CPU_MEMORY_MIB = 8_000


def _duration(seconds: int) -> str:
    days, rest = divmod(seconds, 86_400)
    clock = f"{rest // 3600:02d}:{rest % 3600 // 60:02d}:{rest % 60:02d}"
    return f"{days}-{clock}" if days else clock


def node_list(names: Iterable[str]) -> str:
    """Slurm's short form: gpu01, gpu[01-04,07]."""
    numbers = sorted(int(re.sub(r"\D", "", name)) for name in names)
    runs = [
        [number for _, number in run]
        for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    ]
    parts = [f"{r[0]:02d}" if len(r) == 1 else f"{r[0]:02d}-{r[-1]:02d}" for r in runs]
    return f"gpu{parts[0]}" if len(numbers) == 1 else f"gpu[{','.join(parts)}]"


def _tres(attempt: Attempt, *, allocated: bool) -> str:
    gpus = attempt.gpus_asked
    nodes = max(1, len(attempt.node_names))
    typed = f"gres/gpu:{GRES_MODEL}={gpus}," if allocated and gpus else ""
    untyped = f"gres/gpu={gpus}," if gpus else ""
    memory = f"mem={attempt.cpus * CPU_MEMORY_MIB}M"
    return f"billing={attempt.cpus},cpu={attempt.cpus},{typed}{untyped}{memory},node={nodes}"


def record(attempt: Attempt, read_at_s: int) -> tuple[str, ...]:
    """The fields of one line, in the order of COLUMNS."""
    started = attempt.start_s is not None
    ended = attempt.state not in {"RUNNING", "PENDING"}
    elapsed_s = (attempt.end_s or read_at_s) - attempt.start_s if attempt.start_s else 0
    state = f"CANCELLED by {attempt.user.uid}" if attempt.state == "CANCELLED" else attempt.state
    return (
        attempt.array_id or str(attempt.job_id),
        str(attempt.job_id),
        attempt.user.name,
        str(attempt.user.uid),
        attempt.user.account,
        "gpu" if attempt.gpus_asked else "cpu",
        "normal",
        CLUSTER,
        state,
        attempt.exit_code,
        "None" if started else "Resources",
        str(attempt.submit_s),
        str(attempt.eligible_s),
        str(attempt.start_s) if started else "None" if ended else "Unknown",
        str(attempt.end_s) if ended else "Unknown",
        _duration(elapsed_s),
        str(elapsed_s),
        str(attempt.timelimit_s // 60),
        "00:00:00",
        str(max(1, len(attempt.node_names))),
        node_list(attempt.node_names) if started else "None assigned",
        str(attempt.cpus if started else 0),
        _tres(attempt, allocated=False),
        _tres(attempt, allocated=True) if started else "",
        str(elapsed_s * attempt.cpus),
        "1",
        attempt.name,
    )


def write(attempts: Iterable[Attempt], read_at_s: int, path: Path) -> None:
    """All records in one file, header first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ["|".join(COLUMNS), *("|".join(record(a, read_at_s)) for a in attempts)]
    path.write_bytes(("\n".join(lines) + "\n").encode())
