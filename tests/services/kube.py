"""A real kube-apiserver and its etcd, as kube_apiserver.sh builds the one and Debian packages the other.

No scheduler, kubelet or controller: tests say what those would.
"""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import time
from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, Self

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.services.kafka import JARS as CACHE
from tests.services.kafka import free_port

# Users by token; the admin's group may do everything, the others what RBAC gives them.
TOKENS = 'admin-token,admin,u1,"system:masters"\nlooker-token,looker,u2\n'
POLICY = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"


def missing() -> str:
    """Why no server can be had here; '' when one can."""
    script = Path(__file__).with_name("kube_apiserver.sh")
    ran = subprocess.run(
        ["bash", str(script), str(CACHE)], capture_output=True, text=True, check=False
    )
    if ran.returncode:
        return ran.stderr.strip() or "kube_apiserver.sh failed"
    return "" if shutil.which("etcd") else "etcd is not installed"


class ApiServer:
    """Started, stopped and started again on the same port and data. A context manager."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._etcd, self._peer, self._port = free_port(), free_port(), free_port()
        self.audit = folder / "audit.log"
        self._processes: list[subprocess.Popen[bytes]] = []
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        (folder / "sa.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )
        (folder / "tokens.csv").write_text(TOKENS)
        (folder / "audit.yaml").write_text(POLICY)
        users = [{"name": n, "user": {"token": f"{n}-token"}} for n in ("admin", "looker")]
        server = {"server": f"https://127.0.0.1:{self._port}", "insecure-skip-tls-verify": True}
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "admin",
            "clusters": [{"name": "c", "cluster": server}],
            "users": users,
            "contexts": [{"name": n, "context": {"cluster": "c", "user": n}} for n in ("admin", "looker")],
        }))  # fmt: skip

    def _run(self, log: str, *command: str) -> None:
        with (self._folder / log).open("ab") as out:
            self._processes.append(
                subprocess.Popen(command, cwd=self._folder, stdout=out, stderr=out)
            )

    def start(self) -> None:
        """Both, and wait until the server says it is ready."""
        etcd, peer = (f"http://127.0.0.1:{port}" for port in (self._etcd, self._peer))
        self._run("etcd.log", "etcd", "--data-dir", "etcd", "--listen-client-urls", etcd,
                  "--advertise-client-urls", etcd, "--listen-peer-urls", peer,
                  "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}")  # fmt: skip
        # The advertised address is only published; loopback is refused there.
        self._run(
            "server.log", str(next(CACHE.glob("kube-apiserver-*/kube-apiserver"))),
            f"--etcd-servers={etcd}", f"--secure-port={self._port}", "--bind-address=127.0.0.1",
            "--advertise-address=10.0.0.1", "--cert-dir=certs", "--token-auth-file=tokens.csv",
            "--authorization-mode=RBAC", "--service-account-issuer=https://kubernetes.default.svc",
            "--service-account-key-file=sa.key", "--service-account-signing-key-file=sa.key",
            "--service-cluster-ip-range=10.96.0.0/24", "--disable-admission-plugins=ServiceAccount",
            "--audit-policy-file=audit.yaml", "--audit-log-path=audit.log",
        )  # fmt: skip
        deadline = time.monotonic() + 120
        while True:
            try:
                self.ask("GET", "/readyz")
            except (OSError, HTTPException) as error:
                if time.monotonic() > deadline:
                    tail = (self._folder / "server.log").read_text()[-2000:]
                    raise TimeoutError(tail) from error
                time.sleep(0.3)
            else:
                return

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
            process.wait()
        self._processes.clear()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """A request of the admin. Raises OSError."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        context = ssl._create_unverified_context()  # noqa: S323 - its certificate is its own
        connection = HTTPSConnection("127.0.0.1", self._port, timeout=30, context=context)
        with closing(connection):
            headers = {"Authorization": "Bearer admin-token", "Content-Type": kind}
            connection.request(method, path, json.dumps(body) if body else None, headers)
            answer = connection.getresponse()
            text = answer.read()
        if answer.status >= 400:
            raise OSError(f"{method} {path}: {answer.status} {text.decode()}")
        return json.loads(text) if text[:1] == b"{" else text

    def kubectl(self, *arguments: str) -> str:
        """What kubectl prints for the admin."""
        command = ["kubectl", "--kubeconfig", str(self.kubeconfig), *arguments]
        settings = {**os.environ, "HOME": str(self._folder)}
        return subprocess.run(
            command, env=settings, capture_output=True, text=True, check=True
        ).stdout

    def compact(self) -> None:
        """Make etcd forget all versions but the newest."""

        def post(path: str, body: dict[str, Any]) -> Any:
            with closing(HTTPConnection("127.0.0.1", self._etcd, timeout=30)) as connection:
                connection.request("POST", f"/v3/kv/{path}", json.dumps(body))
                return json.loads(connection.getresponse().read())

        revision = post("range", {"key": "Lw=="})["header"]["revision"]
        post("compaction", {"revision": revision, "physical": True})

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
