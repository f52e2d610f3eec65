"""AWS CloudTrail: gzipped files of records to typed Parquet, and every rule about storage over the rows.

Records are drawn with replacement, seed 11, from 58 public ones (samples/storage/cloudtrail: mean 1.6 kB), with event
ids and addresses of their own, in files of 2,500 as `{"Records": [...]}`, gzip level 6: 500,000 at scale 1.

Peers. DuckDB's `read_json` with `unnest` reads the same files here. azuma 0.7.3 with 56 Sigma rules did 5,500 events per CPU
second where REF does 239,000 lines: 20 times that is 0.46 REF, 100 times 2.3 REF. Its rules are not packaged, so it does not run here.
"""

from __future__ import annotations

import gzip
import json
import random
from importlib.resources import files
from pathlib import Path

import duckdb
import polars as pl

from fleetmark.accuracy.frames import judged
from fleetmark.catalog import Catalog, load_catalog
from fleetmark.pipeline.files import Content
from fleetmark.source import Context
from fleetmark.testing import source_rows

from ..workload import Goal, Workload

RECORDS = 500_000
IN_FILE = 2_500
SEED = 11
LIMIT_BYTES = 256 << 20
TABLES = ("storage_access", "storage_event")
SAMPLES = files("fleetmark.samples") / "storage" / "cloudtrail"
# What the drawn records hold: selectors narrowed or a trail stopped, and a snapshot shared.
EXPECTED = {"log_tampered", "snapshot_shared"}


def _public() -> list[dict[str, object]]:
    found = []
    for path in sorted(SAMPLES.iterdir(), key=lambda p: p.name):
        if path.name.endswith(".json"):
            held = json.loads(path.read_text(encoding="utf-8"))
            found += held["Records"] if isinstance(held, dict) and "Records" in held else held
    return found


def prepare(folder: Path, scale: float) -> Path:
    """A folder of files, 200 at scale 1; left alone when it exists."""
    target = folder / "cloudtrail"
    if target.exists():
        return target
    target.mkdir()
    draw = random.Random(SEED)  # noqa: S311 - seeded randomness is the point
    public = _public()
    left = max(1, round(RECORDS * scale))
    for number in range(-(-left // IN_FILE)):
        records = [
            {**draw.choice(public), "eventID": f"{draw.getrandbits(128):032x}",
             "sourceIPAddress": f"198.51.{draw.randrange(256)}.{draw.randrange(256)}"}
            for _ in range(min(IN_FILE, left - number * IN_FILE))
        ]  # fmt: skip
        text = json.dumps({"Records": records}, separators=(",", ":")).encode()
        (target / f"{number:03}.json.gz").write_bytes(gzip.compress(text, 6, mtime=0))
    return target


def load(folder: Path) -> tuple[list[Path], Catalog]:
    """The files, and the definitions: imported before the clock starts."""
    return sorted(folder.glob("*.json.gz")), load_catalog()


def to_parquet(given: tuple[list[Path], Catalog]) -> int:
    """File by file as the ingest does it: unpack, parse, gate by the contracts, write.

    Raises RuntimeError unless every record became a row or a counted skip: all of them are good.
    """
    paths, catalog = given
    source = catalog.sources["cloudtrail"]
    count = 0
    for path in paths:
        content = Content(path)
        data = content.read(LIMIT_BYTES)
        content.close()
        parsed = source.parse(data, Context(path.name, {"cluster": "bench"}))  # type: ignore[arg-type]  # a document
        rows, refused = source_rows(source, parsed)
        if refused.height:
            raise RuntimeError(f"{path.name}: {refused.height} records are refused")
        for name in TABLES:
            part = path.with_name(f"{path.stem}-{name}.parquet")
            rows[name].write_parquet(part, compression="zstd", compression_level=3)
        count += parsed.skipped + sum(rows[name].height for name in TABLES)
    return count


def prepare_rows(folder: Path, scale: float) -> Path:
    """The same records as the tables that they become."""
    target = prepare(folder, scale)
    to_parquet(load(target))
    return target


def load_rows(folder: Path) -> tuple[Path, Catalog]:
    """The files, and the definitions: imported before the clock starts."""
    return folder, load_catalog()


def judge(given: tuple[Path, Catalog]) -> int:
    """Every shipped rule about storage and its management, with the models below them, over the Parquet.

    Raises RuntimeError unless the tampering and the shared snapshot among the records are found.
    """
    folder, catalog = given
    tables = {name: pl.read_parquet(folder / f"*-{name}.parquet") for name in TABLES}
    rules = [name for name, rule in catalog.detectors.items() if rule.card.domain == "security"]
    with judged(catalog, rules, tables) as connection:
        rows = connection.execute("SELECT DISTINCT detector FROM finding").fetchall()
    found = {str(row[0]) for row in rows}
    if missing := EXPECTED - found:
        raise RuntimeError(f"{sorted(missing)} found nothing; {sorted(found)} did")
    return sum(frame.height for frame in tables.values())


def prepare_few(folder: Path, scale: float) -> Path:
    """A tenth of the records, for a peer that is slow; rates are compared."""
    fewer = folder / "few"
    fewer.mkdir(exist_ok=True)
    return prepare(fewer, scale / 10)


def read_json(folder: Path) -> int:
    """DuckDB's own reader: ten fields and the request as text, to Parquet."""
    fields = ("eventTime", "eventName", "eventSource", "eventID", "awsRegion", "sourceIPAddress",
              "userAgent", "errorCode", "recipientAccountId", "userIdentity")  # fmt: skip
    columns = ", ".join(f"r->>'$.{name}' AS {name}" for name in fields)
    target = folder / "peer.parquet"
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT {columns}, r->'$.requestParameters' AS request, r->'$.responseElements' AS response "  # noqa: S608 - names of this file
            f"FROM (SELECT unnest(\"Records\") AS r FROM read_json('{folder}/*.json.gz', "
            "columns = {Records: 'JSON[]'}, maximum_object_size = 268435456))) "
            f"TO '{target}' (FORMAT parquet, COMPRESSION zstd)"
        )
        row = connection.execute(f"SELECT count(*) FROM '{target}'").fetchone()  # noqa: S608 - own file
    return int(row[0]) if row else 0


DUCKDB = Workload(
    name="cloudtrail_duckdb",
    doc="DuckDB's `read_json` and `unnest` on a tenth of the files of cloudtrail, twelve columns to Parquet",
    unit="records",
    prepare=prepare_few,
    run=read_json,
    peer="duckdb",
)
TO_PARQUET = Workload(
    name="cloudtrail",
    doc="500,000 CloudTrail records in gzipped files of 2,500 to Parquet with every column of storage_access and "
    "storage_event typed and gated, the request kept as JSON; `x DuckDB` is `read_json` with `unnest` on such files",
    unit="records",
    prepare=prepare,
    load=load,
    run=to_parquet,
    goals=(Goal("x REF", 0.6, 0.8), Goal("x DuckDB read_json", 15, beside=DUCKDB.name)),
)
RULES = Workload(
    name="rules",
    doc="every shipped detector of theft and tampering, with all models below them, over the Parquet of those records. "
    "azuma 0.7.3 with 56 Sigma rules ran at 0.023 REF: 20 times it is 0.46 REF, 100 times 2.3 REF",
    unit="events",
    prepare=prepare_rows,
    load=load_rows,
    run=judge,
    goals=(Goal("x REF", 0.46, 2.3),),
)
