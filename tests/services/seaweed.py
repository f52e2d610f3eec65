"""A SeaweedFS with its S3 gateway, as an S3-compatible store."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from tests.services.kafka import free_port

KEY, SECRET = "fleet", "fleet-secret"
WEED = Path(sys.executable).with_name("weed")


class Seaweed:
    """Started on ports of its own. A context manager."""

    def __init__(self, folder: Path, host: str = "127.0.0.1") -> None:
        self._folder, self._host = folder, host
        self._port = free_port()
        self.endpoint = f"http://{host}:{self._port}"
        identities = [
            {
                "name": "fleet",
                "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
                "actions": ["Admin", "Read", "Write", "List"],
            }
        ]
        (folder / "s3.json").write_text(json.dumps({"identities": identities}))

    def bucket(self, name: str, secret: str = SECRET) -> S3Store:
        return S3Store(
            name, endpoint=self.endpoint, region="us-east-1", access_key_id=KEY,
            secret_access_key=secret, client_options={"allow_http": True},
        )  # fmt: skip

    def __enter__(self) -> Self:
        ports = {name: free_port() for name in ("master", "volume", "filer")}
        with (self._folder / "out.log").open("wb") as out:
            self._process = subprocess.Popen(
                [
                    WEED, "server", f"-dir={self._folder}", f"-ip={self._host}", f"-ip.bind={self._host}", "-filer",
                    "-s3", f"-s3.port={self._port}", f"-s3.config={self._folder}/s3.json",
                    "-master.volumeSizeLimitMB=8", "-volume.max=20",
                    *(f"-{name}.port={port}" for name, port in ports.items()),
                    *(f"-{name}.port.grpc={free_port()}" for name in ports),
                    f"-s3.port.grpc={free_port()}",
                    # Of these every server would take the same ports, and end where they are taken.
                    "-s3.port.iceberg=0", "-s3.port.lance=0",
                ],
                stdout=out, stderr=out,
            )  # fmt: skip
        return self

    def wait(self, name: str) -> S3Store:
        """Make a bucket as soon as the store answers."""
        bucket, deadline = self.bucket(name), time.monotonic() + 90
        while True:
            try:
                obstore.put(bucket, "ready", b"x")
                obstore.delete(bucket, "ready")
            except BaseError as error:
                if time.monotonic() > deadline:
                    raise TimeoutError((self._folder / "out.log").read_text()[-2000:]) from error
                time.sleep(0.3)
            else:
                return bucket

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
