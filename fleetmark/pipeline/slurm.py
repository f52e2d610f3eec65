"""What Slurm is asked for: its commands on this machine, or slurmrestd at an address."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Protocol

import requests

from fleetmark.errors import ServiceError, ServiceUnreachableError
from fleetmark.pipeline.pull_answer import Answer

TIMEOUT_S = 300.0
# A begin time that jobs may have been given.
FUTURE = timedelta(days=3650)
# One character that no name of a job holds.
DELIMITER = "\x1f"
# Known since 20.11; free text last.
SACCT_FIELDS = (
    "Cluster,JobID,JobIDRaw,User,UID,Account,Partition,QOS,Reservation,State,ExitCode,"
    "DerivedExitCode,Priority,Submit,Eligible,Start,End,ElapsedRaw,Suspended,TimelimitRaw,NodeList,"
    "NNodes,ReqCPUS,AllocCPUS,ReqMem,AllocTRES,ReqTRES,DBIndex,Reason,JobName"
)
EVENT_FIELDS = "Cluster,NodeName,TimeStart,TimeEnd,State,Reason,User"
SHOWN_KINDS = ("node", "job", "partition", "res")
NOTHING_SHOWN = re.compile(rb"^No (?:jobs|reservations|nodes|partitions)\b")


class Slurm(Protocol):
    """A Slurm cluster that can be asked. `histories` names what is kept as history."""

    @property
    def endpoint(self) -> str: ...

    @property
    def histories(self) -> Sequence[str]: ...

    def history(self, name: str, start: datetime, end: datetime, *, is_now: bool) -> Answer:
        """What of a history overlaps [start, end), UTC. Raises ServiceError.

        `is_now`: the end is now. Then jobs are wanted too that may only begin later: Slurm takes a
        waiting job's eligible time for its beginning.
        """
        ...

    def state(self, now: datetime) -> Sequence[Answer]:
        """Nodes, the queue, partitions and reservations as they are. Raises ServiceError."""
        ...


@dataclass(frozen=True, slots=True)
class SlurmCommands:
    """The commands `sacct`, `sacctmgr` and `scontrol` in this environment, with times as epoch seconds."""

    environment: Mapping[str, str]
    cluster: str | None = None
    histories: Sequence[str] = ("sacct", "sacctmgr event")

    @property
    def endpoint(self) -> str:
        return f"slurm:{self.cluster}" if self.cluster else "slurm"

    def history(self, name: str, start: datetime, end: datetime, *, is_now: bool) -> Answer:
        """Attempts from `sacct -D`, or times out of service from `sacctmgr show event`."""
        last = end + FUTURE if is_now and name == "sacct" else end
        begin, until = f"{start:%Y-%m-%dT%H:%M:%S}", f"{last:%Y-%m-%dT%H:%M:%S}"
        options = {"tz": "UTC", "observed_at": f"{end:%Y-%m-%dT%H:%M:%S}"}
        if name == "sacct":
            which = ["-M", self.cluster] if self.cluster else []
            content = self._run([
                "sacct", "-a", "-X", "-D", "--noconvert", "--parsable2", *which,
                f"--delimiter={DELIMITER}", f"--starttime={begin}", f"--endtime={until}",
                f"--format={SACCT_FIELDS}",
            ])  # fmt: skip
            return Answer("sacct", content, {**options, "duplicates": "yes"})
        which = [f"Clusters={self.cluster}"] if self.cluster else []
        content = self._run([
            "sacctmgr", "--parsable2", "--readonly", "show", "event", *which, f"Start={begin}",
            f"End={until}", f"Format={EVENT_FIELDS}",
        ])  # fmt: skip
        return Answer("sacctmgr", content, options)

    def state(self, now: datetime) -> Sequence[Answer]:
        """What `scontrol show` prints of all kinds, a record a line."""
        which = ["-M", self.cluster] if self.cluster else []
        parts = [
            self._run(["scontrol", *which, "-a", "-d", "-o", "show", kind]) for kind in SHOWN_KINDS
        ]
        shown = [part for part in parts if not NOTHING_SHOWN.match(part)]
        options = {"tz": "UTC", "observed_at": f"{now:%Y-%m-%dT%H:%M:%S}"}
        return [Answer("scontrol", b"".join(shown), options)] if any(shown) else []

    def _run(self, command: list[str]) -> bytes:
        """Output of a command. Raises ServiceError when it is not there, with Retryable when it fails."""
        environment = {
            **self.environment,
            "TZ": "UTC",
            "SLURM_TIME_FORMAT": "%s",
            "LC_ALL": "C.UTF-8",
        }
        try:
            done = subprocess.run(  # noqa: S603 - fixed words, and a cluster's name as one of them
                command, capture_output=True, env=environment, timeout=TIMEOUT_S, check=False
            )
        except FileNotFoundError:
            raise ServiceError(
                f"{command[0]} is not installed here: run on a machine with Slurm's commands, or give "
                "the address of slurmrestd"
            ) from None
        except subprocess.TimeoutExpired:
            raise ServiceUnreachableError(
                f"{command[0]} did not end within {TIMEOUT_S:.0f} s"
            ) from None
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip()[:500]
            raise ServiceUnreachableError(f"{command[0]} failed with {done.returncode}: {said}")
        return done.stdout


@dataclass(slots=True)
class SlurmRest:
    """slurmrestd at `endpoint`; `headers` carry the user's name and token. The newest API it offers
    is taken (its OpenAPI document names them).
    """

    endpoint: str
    headers: Mapping[str, str] = field(default_factory=dict)
    histories: Sequence[str] = ("slurmdb jobs",)
    _paths: Sequence[str] = ()

    def history(self, name: str, start: datetime, end: datetime, *, is_now: bool) -> Answer:  # noqa: ARG002 - there is one
        """Attempts, those before a requeue too."""
        asked = {
            "start_time": str(_epoch(start)), "end_time": str(_epoch(end + FUTURE if is_now else end)),
            "show_duplicates": "true", "skip_steps": "true",
        }  # fmt: skip
        content = self._get(self._path("slurmdb", "jobs"), asked)
        options = {"observed_at": f"{end:%Y-%m-%dT%H:%M:%S}", "duplicates": "yes"}
        return Answer("sacct_json", content, options)

    def state(self, now: datetime) -> Sequence[Answer]:
        """Nodes, the queue, partitions and reservations."""
        options = {"observed_at": f"{now:%Y-%m-%dT%H:%M:%S}"}
        kinds = ("nodes", "jobs", "partitions", "reservations")
        return [Answer("slurm_json", self._get(self._path("slurm", k), {}), options) for k in kinds]

    def _path(self, family: str, what: str) -> str:
        if not self._paths:
            self._paths = re.findall(
                r'"(/slurm(?:db)?/v0\.0\.\d+/\w+)/?"', self._get("/openapi", {}).decode()
            )
        offered = re.compile(rf"/{family}/v0\.0\.(\d+)/{what}$")
        found = [(int(m[1]), path) for path in self._paths if (m := offered.match(path))]
        if not found:
            raise ServiceError(f"{self.endpoint} offers no /{family}/…/{what}: is it slurmrestd?")
        return max(found)[1]

    def _get(self, path: str, asked: Mapping[str, str]) -> bytes:
        url = self.endpoint.rstrip("/") + path
        try:
            answer = requests.get(url, params=dict(asked), headers=self.headers, timeout=TIMEOUT_S)
        except requests.RequestException as error:
            raise ServiceUnreachableError(f"{url}: {error}") from None
        if answer.status_code >= 500:
            raise ServiceUnreachableError(f"{url} answers {answer.status_code}")
        if not answer.ok:
            hint = ": check user and token" if answer.status_code in {401, 403} else ""
            raise ServiceError(f"{url} answers {answer.status_code}{hint}")
        return answer.content


def _epoch(moment: datetime) -> int:
    return int(moment.replace(tzinfo=UTC).timestamp())
