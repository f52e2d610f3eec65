"""Detectors: models whose output is `finding`, with a rule card that says what they miss.

A detector's query returns one row per subject with the columns of DETECTED (some optional); the
runner adds identity, detector, version and time of evaluation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import duckdb

from fleetmark.errors import DefinitionError
from fleetmark.model import Model, duration, params_of, split_header, sql_compute, tables_in
from fleetmark.table import Column, Table

Severity = Literal["info", "low", "medium", "high", "critical"]
Domain = Literal["performance", "security"]

ENTITIES = {
    "cluster": ("VARCHAR[]", "clusters concerned"),
    "node": ("VARCHAR[]", "nodes concerned"),
    "gpu_uuid": ("VARCHAR[]", "GPUs concerned"),
    "rank": ("INTEGER[]", "global ranks concerned"),
    "job_id": ("VARCHAR[]", "jobs concerned"),
    "principal": ("VARCHAR[]", "principals (people, roles, keys) concerned"),
    "checkpoint": ("VARCHAR[]", "checkpoints concerned"),
    "bucket": ("VARCHAR[]", "buckets concerned"),
    "ip": ("VARCHAR[]", "addresses the access came from"),
}
_ENTITY_COLUMNS = tuple(
    Column(name, kind, doc + "; empty where none", null=False)
    for name, (kind, doc) in ENTITIES.items()
)
_VERDICT = (
    Column("score", "DOUBLE", "strength of the evidence, 0 to 1", "ratio", null=False),
    Column("severity", "VARCHAR", "info, low, medium, high or critical", null=False),
    Column("start_ts", "TIMESTAMP", "start of the interval concerned", null=False),
    Column("end_ts", "TIMESTAMP", "end of the interval concerned", null=False),
    Column(
        "detected_at",
        "TIMESTAMP",
        "event time at which the evidence sufficed; the same on every re-run; where the evidence "
        "says time_basis relative the records have no date, and 1970-01-01 stands for their start",
        null=False,
    ),
)
_MEASURE = (
    Column(
        "lower",
        "DOUBLE",
        "lower bound of the measured quantity, which the evidence names as `quantity`",
    ),
    Column("upper", "DOUBLE", "upper bound of the measured quantity"),
    Column("evidence", "VARCHAR", "JSON object: the figures the verdict rests on", null=False),
)

FINDING = Table(
    name="finding",
    doc="Verdicts of all detectors, one row per subject and incident.",
    grain=("finding_id",),
    time="detected_at",
    partition=("detector",),
    sort=("detected_at",),
    columns=(
        Column("finding_id", "VARCHAR", "detector and hash of the subject; stable over re-runs"),
        Column("detector", "VARCHAR", "the detector's id", null=False),
        Column("domain", "VARCHAR", "performance or security", null=False),
        Column("kind", "VARCHAR", "what is wrong; for security the detector's id", null=False),
        *_VERDICT,
        Column("evaluated_at", "TIMESTAMP", "when the detector last ran over it", volatile=True),
        *_ENTITY_COLUMNS,
        *_MEASURE,
        Column("detector_version", "VARCHAR", "hash of the detector's definition", volatile=True),
    ),
)

# What a detector's query returns. Columns not returned: severity from the card, kind from the
# card, entities empty, lower and upper NULL.
DETECTED_REQUIRED = ("subject", "score", "start_ts", "end_ts", "detected_at", "evidence")
DETECTED_OPTIONAL = ("kind", "severity", "lower", "upper", *ENTITIES)

CARD_HEADINGS = ("flags", "why", "looks_like", "misses", "todo")


@dataclass(frozen=True, slots=True)
class Card:
    """The rule card: what a person needs to act on a finding, and to doubt it.

    flags, why, looks_like (benign twins), misses, todo: prose, shown in docs, API and alerts.
    attack, attack_version: MITRE ATT&CK or ATLAS ids and the version they belong to.
    pages: a finding is told by itself; false: it only supports others of the same principal.
    """

    title: str
    domain: Domain
    kind: str
    severity: Severity
    flags: str
    why: str
    looks_like: str
    misses: str
    todo: str
    reviewed: str
    attack: tuple[str, ...] = ()
    attack_version: str = ""
    pages: bool = True


@dataclass(frozen=True, slots=True)
class Detector:
    """A rule over tables. `model.output` is the FINDING table; `name` is the detector's id.

    Without rows in a source table it rests on, it is not evaluable, unless that table is
    `optional`. Of the tables in `one_of` one with rows is enough. `needs` maps tables it reads to
    SQL conditions: it is not evaluable either unless each table has a row that meets its condition
    (a column that no exporter fills is no input).
    """

    name: str
    card: Card
    model: Model
    optional: tuple[str, ...] = ()
    one_of: tuple[str, ...] = ()
    needs: Mapping[str, str] = field(default_factory=dict)


def _card(header: Mapping[str, Any], path: Path) -> Card:
    missing = [key for key in ("title", "severity", "domain", "reviewed", *CARD_HEADINGS)
               if not header.get(key)]  # fmt: skip
    if missing:
        raise DefinitionError(f"{path}: the rule card lacks {', '.join(missing)}")
    if header["severity"] not in get_args(Severity) or header["domain"] not in get_args(Domain):
        raise DefinitionError(f"{path}: unknown severity or domain")
    if header["domain"] == "security" and not header.get("attack"):
        raise DefinitionError(f"{path}: a security detector maps to ATT&CK or ATLAS (attack)")
    return Card(
        kind=header.get("kind", path.stem),
        attack=tuple(header.get("attack", ())),
        attack_version=header.get("attack_version", ""),
        pages=header.get("pages", True),
        **{key: str(header[key]).strip() for key in ("title", "reviewed", *CARD_HEADINGS)},
        severity=header["severity"],
        domain=header["domain"],
    )


def sql_detector(path: Path, parser: duckdb.DuckDBPyConnection) -> Detector:
    """Read a detector from an SQL file; its id is the file's name."""
    header, text = split_header(path)
    detector = Detector(
        name=path.stem,
        card=_card(header, path),
        model=Model(
            name=path.stem,
            inputs=tables_in(text, str(path), parser),
            output=FINDING,
            compute=sql_compute(text),
            window=header.get("window", "day"),
            lookback=duration(header.get("lookback", "0d"), path),
            params=params_of(header, path),
            version=hashlib.sha256(text.encode()).hexdigest()[:16],
            path=path,
        ),
        optional=tuple(header.get("optional", ())),
        one_of=tuple(header.get("one_of", ())),
        needs=header.get("needs", {}),
    )
    if unread := set(detector.needs) - set(detector.model.inputs):
        raise DefinitionError(f"{path}: needs {', '.join(unread)}, which it does not read")
    return detector
