"""Amazon S3 server access logs: 27 fields a line, in many files, late, now and then twice.

Fields and order: awsdocs/amazon-s3-user-guide@0bd3dc39:doc_source/LogFormat.md and its later
additions (access point, ACL required, source region). Delivery is best effort there: most lines
come within two hours or so, some four hours later, a few again in a later file. File names are the
service's: delivery time and 16 characters. The service writes more and smaller files than one in
two hours; fewer keep the ingest of a demo short.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from .checkpoints import BUCKET
from .fleet import stream

OWNER = "8f7d1c0b2a4e6f8091a3b5c7d9e1f2034567890abcdef1234567890abcdef123"
REGION = "us-east-1"
HOST = f"{BUCKET}.s3.{REGION}.amazonaws.com"
DELIVERY_S = 2 * 3_600
LATE_SHARE, REPEATED_SHARE = 0.01, 0.002
REQUEST_ID = np.frombuffer(b"0123456789ABCDEFGHJKMNPQRSTVWXYZ", dtype=np.uint8)
HOST_ID = np.frombuffer(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", dtype=np.uint8
)


def _tokens(
    random: np.random.Generator, alphabet: np.ndarray, length: int, count: int
) -> pl.Series:
    letters = alphabet[random.integers(alphabet.size, size=(count, length))]
    return pl.Series(letters.view(f"S{length}").ravel().astype(str), dtype=pl.String)


def lines(requests: pl.DataFrame, seed: int) -> pl.DataFrame:
    """`ts` and `text` of each request, one line each. `requests` as simulate/reads.py makes them."""
    random = stream(seed, "s3 lines")
    is_put = pl.col("operation") == "REST.PUT.PART"
    whole = pl.col("sent_bytes") == pl.col("object_bytes")
    query = (
        pl.when(is_put).then(pl.format("?partNumber={}&uploadId=2~", "part")).otherwise(pl.lit(""))
    )
    verb = pl.when(is_put).then(pl.lit("PUT")).otherwise(pl.lit("GET"))
    status = pl.when(is_put | whole).then(pl.lit("200")).otherwise(pl.lit("206"))
    # A PUT line has no bytes sent; its size field holds what was uploaded.
    sent = pl.when(is_put).then(pl.lit("-")).otherwise(pl.col("sent_bytes").cast(pl.String))
    size = pl.when(is_put).then("sent_bytes").otherwise("object_bytes")
    head = pl.format(
        OWNER + " " + BUCKET + " [{}] {} {} {} {} {}",
        pl.from_epoch(pl.col("ts").floor().cast(pl.Int64)).dt.strftime("%d/%b/%Y:%H:%M:%S +0000"),
        "ip",
        "principal",
        _tokens(random, REQUEST_ID, 16, requests.height),
        "operation",
        "key",
    )
    tail = pl.format(
        ' "{} /{}{} HTTP/1.1" {} - {} {} {} {} "-" "{}" - {}= SigV4 TLS_AES_128_GCM_SHA256'
        " AuthHeader " + HOST + " TLSv1.3 - - " + REGION,
        verb,
        "key",
        query,
        status,
        sent,
        size,
        "total_time_ms",
        pl.Series(random.integers(8, 60, requests.height)),
        "user_agent",
        _tokens(random, HOST_ID, 75, requests.height),
    )
    return requests.select("ts", pl.concat_str(head, tail).alias("text"))


def write(requests: pl.DataFrame, seed: int, folder: Path) -> None:
    """Deliver the lines: one file per two hours of delivery, lines in it in no order."""
    random = stream(seed, "s3 delivery")
    logged = lines(requests, seed)
    delay_s = random.gamma(2.0, 400.0, logged.height)
    delay_s += np.where(random.random(logged.height) < LATE_SHARE, 4 * 3_600, 0)
    first = logged.with_columns(pl.Series("delay_s", delay_s))
    again = first.filter(pl.Series(random.random(logged.height) < REPEATED_SHARE)).with_columns(
        pl.col("delay_s") + DELIVERY_S
    )
    delivered = pl.concat([first, again])
    files = (
        delivered[random.permutation(delivered.height)]
        .with_columns(
            ((pl.col("ts") + pl.col("delay_s")) // DELIVERY_S * DELIVERY_S + DELIVERY_S + 7)
            .cast(pl.Int64)
            .alias("file_s")
        )
        .group_by("file_s", maintain_order=True)
        .agg(pl.col("text").str.join("\n"))
        .sort("file_s")
    )
    folder.mkdir(parents=True, exist_ok=True)
    stamps = pl.from_epoch(files["file_s"]).dt.strftime("%Y-%m-%d-%H-%M-%S")
    names = _tokens(random, REQUEST_ID[:16], 16, files.height)
    for stamp, name, text in zip(stamps, names, files["text"], strict=True):
        (folder / f"{stamp}-{name}").write_bytes(text.encode() + b"\n")
