"""A real Slurm with accounting on this machine: slurmctld, slurmdbd, MariaDB and some slurmd whose
GPUs are device files of no GPU. One cluster at a time; everything is ended by its process.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

NEEDED = ("slurmctld", "slurmd", "slurmdbd", "sacct", "munged", "mariadbd", "setpriv")
LOCK = Path(tempfile.gettempdir()) / "fleetmark-test-slurm.lock"
WHY_NOT = (
    "Slurm with accounting (slurmctld slurmd slurmdbd slurm-client munge mariadb-server) and root"
)


def can_run() -> bool:
    """Are the programs here, and the rights to start them?"""
    return os.geteuid() == 0 and all(shutil.which(name, path=_path()) for name in NEEDED)


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


@dataclass(slots=True)
class Cluster:
    """A running cluster; commands need its `environment`."""

    root: Path
    nodes: list[str]
    environment: dict[str, str]
    daemons: dict[str, subprocess.Popen[bytes]]

    def run(self, *command: str) -> str:
        """Output of a command of Slurm."""
        done = subprocess.run(command, env=self.environment, cwd=self.root, check=True,
                              capture_output=True, timeout=60)  # fmt: skip
        return done.stdout.decode().strip()

    def submit(self, *options: str, script: str = "sleep 2") -> str:
        """Submit a batch job; its id."""
        return self.run("sbatch", "--parsable", "--output=/dev/null", f"--wrap={script}", *options)

    def state(self, job_id: str) -> str:
        """State of a job in the queue, empty when it is gone from there."""
        with suppress(subprocess.CalledProcessError):
            return self.run("squeue", "-h", "-j", job_id, "-t", "all", "-o", "%T").partition("\n")[
                0
            ]
        return ""

    def wait(self, job_id: str, *states: str, limit_s: float = 60) -> None:
        """Until a job is in one of these states."""
        until(lambda: self.state(job_id) in states, f"job {job_id} is not {states}", limit_s)


def until(condition: Callable[[], bool], failure: str, limit_s: float = 30) -> None:
    """Wait for a condition; fail with a message after `limit_s`."""
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, failure
        time.sleep(0.5)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def _configure(root: Path, nodes: list[str], ports: list[int]) -> None:
    database, dbd, controller, *slurmd = ports
    host = socket.gethostname().partition(".")[0]
    where = {"root": root, "host": host, "database": database, "dbd": dbd, "controller": controller}
    lines = [
        f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=32 RealMemory=100000 "
        "Gres=gpu:h100:8"
        for node, port in zip(nodes, slurmd, strict=True)
    ]
    settings = {
        "slurmdbd.conf": SLURMDBD.format(**where),
        "slurm.conf": SLURM.format(**where) + "\n".join([*lines, PARTITIONS]),
        "gres.conf": f"NodeName={','.join(nodes)} Name=gpu Type=h100 File=/dev/tty[0-7]\n",
    }
    for name, text in settings.items():
        (root / name).write_text(text, encoding="utf-8")
        (root / name).chmod(0o600 if name == "slurmdbd.conf" else 0o644)


@contextmanager
def running(node_count: int = 2) -> Iterator[Cluster]:
    """Start a cluster in a folder of its own, and end it."""
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        root = Path(tempfile.mkdtemp(prefix="slurm-"))
        root.chmod(0o755)
        nodes = [f"gpu{number:02d}" for number in range(1, node_count + 1)]
        ports = _free_ports(3 + node_count)
        _configure(root, nodes, ports)
        environment = {
            **os.environ,
            "PATH": _path(),
            "SLURM_CONF": str(root / "slurm.conf"),
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
        }
        cluster = Cluster(root, nodes, environment, {})
        try:
            _start(cluster, ports)
            yield cluster
        finally:
            _end(cluster)
            shutil.rmtree(root, ignore_errors=True)


def _start(cluster: Cluster, ports: list[int]) -> None:
    _start_munge(cluster)
    _start_database(cluster, ports[0])
    _spawn(cluster, "slurmdbd", "slurmdbd", "-D")
    until(lambda: _works(cluster, "sacctmgr", "-n", "show", "cluster"), "slurmdbd does not answer")
    cluster.run("sacctmgr", "-i", "add", "cluster", "testgpu")
    _spawn(cluster, "slurmctld", "slurmctld", "-D", "-f", str(cluster.root / "slurm.conf"))
    until(lambda: "UP" in _output(cluster, "scontrol", "ping"), "slurmctld does not answer")
    for node in cluster.nodes:
        start_node(cluster, node)
    ready = len(cluster.nodes)
    until(lambda: _output(cluster, "sinfo", "-h", "-N", "-p", "batch", "-o", "%T").count("idle") == ready,
          "the nodes do not come up", 60)  # fmt: skip


def start_node(cluster: Cluster, node: str) -> None:
    """Start the slurmd of a node."""
    _spawn(cluster, node, "slurmd", "-D", "-N", node, "-f", str(cluster.root / "slurm.conf"))


def kill_node(cluster: Cluster, node: str, job_id: str) -> None:
    """Kill a node's slurmd and the job's step there, as a crash would."""
    cluster.daemons[node].kill()
    cluster.daemons[node].wait()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            title = (process / "cmdline").read_bytes()
            if title.startswith(f"slurmstepd: [{job_id}.".encode()):
                os.kill(int(process.name), signal.SIGKILL)


def _start_munge(cluster: Cluster) -> None:
    """Run munged at its default socket, which slurmdbd's clients need, unless one runs already."""
    if _works(cluster, "munge", "-n"):
        return
    owner = pwd.getpwnam("munge")
    for folder, mode in (
        ("/run/munge", 0o755),
        ("/var/lib/munge", 0o700),
        ("/var/log/munge", 0o700),
    ):
        Path(folder).mkdir(exist_ok=True)
        os.chown(folder, owner.pw_uid, owner.pw_gid)
        Path(folder).chmod(mode)
    if not Path("/etc/munge/munge.key").exists():
        cluster.run("mungekey")
    _spawn(cluster, "munged", "setpriv", "--reuid", "munge", "--regid", "munge", "--clear-groups",
           "munged", "--foreground", "--num-threads=2")  # fmt: skip
    until(lambda: _works(cluster, "munge", "-n"), "munged does not answer")


def _start_database(cluster: Cluster, port: int) -> None:
    folder, at = cluster.root / "db", str(cluster.root / "db.sock")
    cluster.run("mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={folder}",
                "--auth-root-authentication-method=normal", "--skip-test-db")  # fmt: skip
    _spawn(cluster, "mariadbd", "mariadbd", "--no-defaults", "--user=root", f"--datadir={folder}",
           f"--socket={at}", f"--port={port}", "--bind-address=127.0.0.1",
           "--innodb-buffer-pool-size=64M", "--innodb-lock-wait-timeout=900",
           "--innodb-flush-log-at-trx-commit=0")  # fmt: skip
    client = ("mariadb", "--no-defaults", f"--socket={at}")
    until(lambda: _works(cluster, *client, "-e", "select 1"), "MariaDB does not answer")
    cluster.run(*client, "-e", "create database slurm_acct_db; create user slurm@'%' identified by "
                "'slurm'; grant all on slurm_acct_db.* to slurm@'%'; create user slurm@localhost "
                "identified by 'slurm'; grant all on slurm_acct_db.* to slurm@localhost;")  # fmt: skip


def _spawn(cluster: Cluster, name: str, *command: str) -> None:
    with (cluster.root / f"{name}.out").open("wb") as log:
        cluster.daemons[name] = subprocess.Popen(
            command, env=cluster.environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip


def _output(cluster: Cluster, *command: str) -> str:
    with suppress(subprocess.SubprocessError):
        return cluster.run(*command)
    return ""


def _works(cluster: Cluster, *command: str) -> bool:
    with suppress(subprocess.SubprocessError):
        cluster.run(*command)
        return True
    return False


def _end(cluster: Cluster) -> None:
    """End jobs, then the daemons in the reverse order of their start."""
    with suppress(subprocess.SubprocessError):
        cluster.run("scancel", "--signal=KILL", "--full", "-u", "root")
        cluster.run("scancel", "-u", "root")
    for daemon in reversed(cluster.daemons.values()):
        daemon.terminate()
        try:
            daemon.wait(10)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()


SLURMDBD = """AuthType=auth/munge
DbdHost={host}
DbdAddr=127.0.0.1
DbdPort={dbd}
SlurmUser=root
LogFile={root}/slurmdbd.log
PidFile={root}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct_db
"""
SLURM = """ClusterName=testgpu
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
AuthType=auth/munge
CredType=cred/munge
SlurmUser=root
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd.%n.pid
SlurmctldLogFile={root}/slurmctld.log
SlurmdLogFile={root}/slurmd.%n.log
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool.%n
SlurmdParameters=config_overrides
ReturnToService=2
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
MailProg=/bin/true
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0
PriorityType=priority/basic
InactiveLimit=0
KillWait=1
MinJobAge=300
SlurmctldTimeout=30
SlurmdTimeout=10
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={dbd}
AccountingStorageTRES=gres/gpu,gres/gpu:h100
JobRequeue=1
GresTypes=gpu
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
"""
PARTITIONS = """
PartitionName=batch Nodes=ALL Default=YES MaxTime=1-00:00:00 PriorityTier=5 PreemptMode=OFF
PartitionName=low Nodes=ALL MaxTime=1-00:00:00 PriorityTier=1 PreemptMode=REQUEUE
"""
