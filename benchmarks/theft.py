"""Access lines ingested, scored and alerted on in one run: CPU seconds and peak memory of each step.

`python -m fleetmark.benchmarks.theft [--lines N]` writes 28 days of an S3 server access log (20 million lines unless
told otherwise), Slurm accounting and manifests of 20 models, runs `fleetmark ingest`, `build` and `detect` over them as
commands, and takes the alerts on a socket of its own. 400 people read ranges of 64 MiB of the models' shards in jobs
named in their sessions; one line in fifty is a look of 8 MiB without a job; seven thieves each copy a model of their
own, whole shards, within three hours. Exits with 1 unless every thief, and nobody else, was told.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import click
import numpy as np
import polars as pl

from .lake import started

LINES = 20_000_000
DAYS, PEOPLE, MODELS, SHARDS, THIEVES = 28, 400, 20, 30, 7
FIRST_THIEF = 100
SHARD_BYTES, RANGE_BYTES, LOOK_BYTES = 5 << 30, 64 << 20, 8 << 20
LOOKS = 0.02
SEED = 11
DAY_S = 86_400
START_S = 1_772_323_200  # 1 March 2026
_BATCH = 200_000
_HEAD = "8f7d1c0b2a4e6f80 weights [{}] 10.20.{}.{} arn:aws:sts::111122223333:assumed-role/{}/{} {} REST.GET.OBJECT {}"
_TAIL = (
    ' "GET /{} HTTP/1.1" {} - {} {} 900 40 "-" "Boto3/1.40.1" - aGVsbG8= SigV4 TLS_AES_128_GCM_SHA256 AuthHeader '
    "weights.s3.amazonaws.com TLSv1.3 - -"
)


def write_inputs(folder: Path, lines: int) -> None:
    """The access log, a file a day, `sacct.txt` and `manifest.csv`."""
    draw = np.random.default_rng(SEED)
    (folder / "s3").mkdir(parents=True)
    for day in range(DAYS):
        begin_s = START_S + day * DAY_S
        # Every fourth day one reads a model of its own whole between 02:00 and 05:00.
        number = day // 4
        thief = stolen(number, MODELS - 1 - number, begin_s + 7_200, 360) if day % 4 == 3 else None
        ordinary = lines // DAYS - (SHARDS if thief is not None else 0)
        with (folder / "s3" / f"{day:02}.log").open("wb") as out:
            for start in range(0, ordinary, _BATCH):
                out.write(
                    text_of(looked_at(draw, begin_s, DAY_S, min(_BATCH, ordinary - start)), draw)
                )
            if thief is not None:
                out.write(text_of(thief, draw))
    write_jobs(folder / "sacct.txt", START_S, DAYS)
    write_manifest(folder / "manifest.csv", MODELS)


def looked_at(draw: np.random.Generator, begin_s: int, seconds: int, count: int) -> pl.DataFrame:
    """Reads of everyday work within one day: 98 of 100 in the day's job of whoever reads."""
    look = draw.random(count) < LOOKS
    keys = np.array([_key(m, s) for m in range(MODELS) for s in range(1, SHARDS + 1)])
    job = begin_s // DAY_S * PEOPLE
    return pl.DataFrame({
        "ts_s": np.sort(draw.integers(0, seconds, count)) + begin_s,
        "person": draw.integers(0, PEOPLE, count),
        # A look is at the first shard of one of three models, far below a tenth of it.
        "key": np.where(look, keys[draw.integers(0, 3, count) * SHARDS], keys[draw.integers(0, len(keys), count)]),
        "sent_bytes": np.where(look, LOOK_BYTES, RANGE_BYTES),
    }).with_columns(
        pl.when(pl.Series(look)).then(pl.lit("adhoc"))
        .otherwise(pl.format("job-{}", pl.col("person") + job)).alias("session"),
        pl.lit(206).alias("status"),
    )  # fmt: skip


def stolen(thief: int, model: int, begin_s: int, every_s: int) -> pl.DataFrame:
    """A model read whole, shard after shard, by somebody who has jobs of other models."""
    return pl.DataFrame({
        "ts_s": [begin_s + n * every_s for n in range(SHARDS)],
        "person": [thief + FIRST_THIEF] * SHARDS,
        "key": [_key(model, n) for n in range(1, SHARDS + 1)],
        "sent_bytes": [SHARD_BYTES] * SHARDS,
        "session": ["adhoc"] * SHARDS,
        "status": [200] * SHARDS,
    })  # fmt: skip


def role(person: int) -> str:
    """The principal that the log names for a person."""
    return f"arn:aws:sts::111122223333:assumed-role/u-{person:04}"


def text_of(rows: pl.DataFrame, draw: np.random.Generator) -> bytes:
    """Reads as lines of the server access log."""
    request = pl.Series(draw.integers(0, 1 << 62, rows.height))
    head = pl.format(
        _HEAD,
        pl.from_epoch("ts_s").dt.strftime("%d/%b/%Y:%H:%M:%S +0000"),
        pl.col("person") // 200,
        pl.col("person") % 200 + 1,
        pl.format("u-{}", pl.col("person").cast(pl.String).str.zfill(4)),
        "session",
        pl.lit(request).cast(pl.String).str.zfill(19),
        "key",
    )
    tail = pl.format(_TAIL, "key", "status", "sent_bytes", pl.lit(SHARD_BYTES))
    text: str = rows.select(pl.concat_str(head, tail).str.join("\n")).item()
    return text.encode() + b"\n"


def write_jobs(path: Path, begin_s: int, days: int) -> None:
    """Slurm accounting: one job a person and day, from midnight to midnight."""
    lines = ["JobID|JobIDRaw|User|State|Submit|Start|End|JobName|NNodes|NodeList|AllocTRES|Cluster"]
    for day in range(begin_s // DAY_S, begin_s // DAY_S + days):
        begin, end = (datetime(1970, 1, 1) + timedelta(days=day + n) for n in (0, 1))  # noqa: DTZ001 - UTC
        lines += [
            f"{n}|{n}|u-{n - day * PEOPLE:04}|COMPLETED|{begin:%FT%T}|{begin:%FT%T}|{end:%FT%T}|train|1|gpu01|"
            "billing=8,cpu=8,gres/gpu=8,node=1|bench"
            for n in range(day * PEOPLE, (day + 1) * PEOPLE)
        ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_manifest(path: Path, models: int) -> None:
    """So many models of 30 shards of 5 GiB."""
    path.write_text(
        "checkpoint,bucket,object_key,object_bytes,role,family\n"
        + "".join(f"model-{m:02},weights,{_key(m, s)},{SHARD_BYTES},weights,family-{m % 4}\n"
                  for m in range(models) for s in range(1, SHARDS + 1)),
        encoding="utf-8",
    )  # fmt: skip


def _key(model: int, shard: int) -> str:
    return f"model-{model:02}/model-{shard:05}-of-{SHARDS:05}.safetensors"


@contextmanager
def receiver(told: Callable[[str], object]) -> Iterator[str]:
    """The address of a webhook on loopback that says which principals it was told of."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            for principal in body["principal"]:
                told(principal)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def step(name: str, *arguments: str | Path) -> None:
    """Run a command of Fleetmark and print what it took. Raises ClickException when it fails."""
    began = time.monotonic()
    with started(*map(str, arguments), err=subprocess.PIPE) as process:
        errors = process.stderr.read() if process.stderr else b""
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise click.ClickException(f"{name}: {errors.decode()[-2000:]}")
    click.echo(
        f"{name:<9} {used.ru_utime + used.ru_stime:8.1f} CPU s {time.monotonic() - began:8.1f} s "
        f"{used.ru_maxrss >> 10:6,} MiB"
    )


def run(folder: Path) -> tuple[Sequence[str], Sequence[str]]:
    """All steps over written inputs; the principals told, and those who should be."""
    store = ("--store", folder / "store")
    logs = sorted((folder / "s3").iterdir())
    step(
        "manifest", "ingest", "manifest", folder / "manifest.csv", "--set", "cluster=bench", *store
    )
    step(
        "sacct",
        "ingest",
        "sacct",
        folder / "sacct.txt",
        "--set",
        "cluster=bench",
        "--set",
        "tz=UTC",
        *store,
    )
    step("ingest", "ingest", "s3_access", *logs, "--set", "cluster=bench", *store)
    step("build", "build", *store)
    told: set[str] = set()
    with receiver(told.add) as url:
        step("detect", "detect", "--webhook", url, *store)
    return sorted(told), [role(FIRST_THIEF + thief) for thief in range(THIEVES)]


@click.command()
@click.option("--lines", default=LINES, show_default=True, help="Lines of the access log.")
def main(lines: int) -> None:
    """Measure, and exit with 1 unless exactly the thieves were told."""
    with tempfile.TemporaryDirectory(prefix="fleetmark-bench-") as name:
        folder = Path(name)
        write_inputs(folder, lines)
        told, thieves = run(folder)
    click.echo(f"{lines:,} lines; told of {len(told)} principals, {len(thieves)} are thieves")
    sys.exit(told != thieves)


if __name__ == "__main__":
    main()
