"""Principals against their own past: a score with its reason for each day, beside a forest over the same rows.

A million principal-days at scale 1: principals with 60 days each, log-normal bytes and counts, seed 13; one principal in a hundred reads a
hundred thousand times its usual bytes on its last day. Detector volume_jump scores one feature (bytes) by median and MAD of the principal's own 28 days and
names it; the forest (scikit-learn's IsolationForest, 100 trees of 256 rows) takes ten features, is fitted on all rows, scores all, and names nothing.
"""

from __future__ import annotations

from datetime import datetime
from importlib import import_module
from pathlib import Path

import numpy as np
import polars as pl

from fleetmark.accuracy.frames import judged
from fleetmark.catalog import Catalog, load_catalog

from .workload import Goal, Workload

ROWS, DAYS, SEED = 1_000_000, 60, 13
FIRST = datetime(2026, 1, 1)  # noqa: DTZ001 - times are UTC without zone
JUMP_EVERY, JUMP = 100, 100_000
COUNTS = (
    "request_count", "read_count", "object_count", "bucket_count", "list_count", "denied_count", "ip_count",
    "network_count", "client_count",
)  # fmt: skip
FEATURES = ("sent_bytes", *COUNTS)


def prepare(folder: Path, scale: float) -> Path:
    """The rows of principal_day."""
    draw = np.random.default_rng(SEED)
    people = max(JUMP_EVERY, round(ROWS * scale / DAYS))
    number = np.repeat(np.arange(people), DAYS)
    day = np.tile(np.arange(DAYS), people)
    sent = draw.lognormal(20, 0.5, people * DAYS)
    sent[(number % JUMP_EVERY == 0) & (day == DAYS - 1)] *= JUMP
    counts = {name: draw.lognormal(3, 1, people * DAYS).astype(np.int64) for name in COUNTS}
    start = pl.lit(FIRST) + pl.duration(days=pl.col("day"))
    rows = pl.DataFrame(
        {"number": number, "day": day, "sent_bytes": sent.astype(np.int64), **counts}
    )
    path = folder / "principals.parquet"
    rows.select(
        pl.lit("bench").alias("cluster"), pl.format("p{}", "number").alias("principal"), start.alias("day_ts"),
        *FEATURES, start.alias("first_ts"), (start + pl.duration(hours=12)).alias("last_ts"),
    ).write_parquet(path)  # fmt: skip
    return path


def load(path: Path) -> tuple[pl.DataFrame, Catalog]:
    """The rows in memory, and the definitions."""
    return pl.read_parquet(path), load_catalog()


def score(given: tuple[pl.DataFrame, Catalog]) -> int:
    """Score every row. Raises RuntimeError unless those found are those whose bytes jumped."""
    rows, catalog = given
    with judged(catalog, ["volume_jump"], {"principal_day": rows}) as connection:
        found = connection.execute("SELECT principal[1] FROM finding ORDER BY 1").fetchall()
    jumped = sorted(f"p{n}" for n in range(0, rows.height // DAYS, JUMP_EVERY))
    if [row[0] for row in found] != jumped:
        raise RuntimeError(f"{len(found)} found, {len(jumped)} jumped")
    return rows.height


def load_features(path: Path) -> np.ndarray:
    """Ten features a row; the forest's package is imported before the clock starts."""
    import_module("sklearn.ensemble")
    return pl.read_parquet(path, columns=list(FEATURES)).cast(pl.Float64).to_numpy()


def forest(features: np.ndarray) -> int:
    """Fit and score."""
    made = import_module("sklearn.ensemble").IsolationForest(random_state=0, n_jobs=1)
    return len(made.fit(features).score_samples(features))


FOREST = Workload(
    name="isolation_forest",
    doc="scikit-learn's IsolationForest over ten features of the same rows",
    unit="rows",
    prepare=prepare,
    load=load_features,
    run=forest,
    peer="sklearn",
)
PRINCIPALS = Workload(
    name="principals",
    doc="a million principal-days at scale 1 scored against the principal's own past by volume_jump: one feature, named in the finding; "
    "the forest beside it scores ten and names none",
    unit="rows",
    prepare=prepare,
    load=load,
    run=score,
    goals=(Goal("x REF"), Goal("x IsolationForest", 2, 3, beside=FOREST.name)),
)
