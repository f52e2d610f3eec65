"""A PostgreSQL of its own, in a temporary folder, from the Debian package."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Self

from tests.services.kafka import free_port

_PROGRAMS = Path("/usr/lib/postgresql")
USER = "fleetmark"
# Kills must lose nothing that was committed, so fsync stays on; the rest saves time.
_OPTIONS = "-c listen_addresses='{host}' -c port={port} -c unix_socket_directories='{folder}' -c shared_buffers=32MB"


def missing() -> str:
    """Why no server can be had here; '' when one can."""
    if not any(_PROGRAMS.glob("*/bin/initdb")):
        return "postgresql is not installed"
    return "" if os.geteuid() == 0 or shutil.which("initdb") else "not root"


class Postgres:
    """Started, stopped, killed and started again on the same port and data. A context manager."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.host, self.port, self.password = host, free_port(), secrets.token_hex(8)
        self._programs = max(_PROGRAMS.glob("*/bin"))
        # Beside pytest's folders, which another user may not enter.
        self.folder = Path(tempfile.mkdtemp(prefix="fleetmark-pg-"))
        self._data = self.folder / "data"

    def _as_postgres(self, *command: str) -> None:
        drop = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        ran = subprocess.run(
            [*drop, *command], capture_output=True, text=True, cwd="/", check=False
        )
        assert ran.returncode == 0, f"{command}: {ran.stderr}{ran.stdout}"

    def __enter__(self) -> Self:
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres")
        word = self.folder / "password"
        word.write_text(self.password)
        word.chmod(0o644)
        self._as_postgres(
            str(self._programs / "initdb"), "-D", str(self._data), "-U", USER, "--no-sync",
            "--auth=scram-sha-256", f"--pwfile={word}", "--no-instructions", "-E", "UTF8",
        )  # fmt: skip
        with (self._data / "pg_hba.conf").open("a") as rules:
            rules.write("host all all samenet scram-sha-256\n")
        self.start()
        return self

    def start(self) -> None:
        """Returns when it takes connections."""
        options = _OPTIONS.format(host=self.host, port=self.port, folder=self.folder)
        self._as_postgres(
            str(self._programs / "pg_ctl"), "-D", str(self._data), "-w", "-t", "60", "-o", options,
            "-l", str(self.folder / "server.log"), "start",
        )  # fmt: skip

    def stop(self) -> None:
        """As an operator restarts it: connections are cut, transactions in flight are lost."""
        self._as_postgres(
            str(self._programs / "pg_ctl"), "-D", str(self._data), "-w", "-m", "fast", "stop"
        )

    def kill(self) -> None:
        """As a machine that loses power."""
        pid = int((self._data / "postmaster.pid").read_text().split("\n", 1)[0])
        os.kill(pid, signal.SIGQUIT)
        (self._data / "postmaster.pid").unlink(missing_ok=True)

    def database(self, name: str) -> str:
        """A new database; what to connect to, without the password."""
        subprocess.run(
            ["psql", "-q", "-h", self.host, "-p", str(self.port), "-U", USER, "-d", "postgres", "-c",
             f"CREATE DATABASE {name}"],
            env={**os.environ, "PGPASSWORD": self.password}, check=True,
        )  # fmt: skip
        return f"postgres:host={self.host} port={self.port} user={USER} dbname={name}"

    def __exit__(self, *_: object) -> None:
        self._as_postgres(
            str(self._programs / "pg_ctl"), "-D", str(self._data), "-w", "-m", "immediate", "stop"
        )
        shutil.rmtree(self.folder)
