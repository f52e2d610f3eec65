"""The registry of GPU signals (signals.toml): what each is, its column, and every exporter's name for it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from fleetmark.table import Column

Kind = Literal["gauge", "counter", "last", "mask", "packed", "constant"]
Entity = Literal["gpu", "link", "switch", "cpu"]
# A name may hold the number of the link it measures; DCGM has fields of 18 links.
_LINK = "{link}"
_LINK_COUNT = 18
_SELECTED = re.compile(r"(\w+)\{(\w+=\w+(?:,\w+=\w+)*)\}")


@dataclass(frozen=True, slots=True)
class Spelling:
    """One exporter's name for a signal.

    factor   turns the exporter's number into the column's unit
    since    the oldest DCGM release in which the name was seen, or the exporter that has it
    labels   labels a series must have to be meant, where an exporter prints several quantities
             under one name
    link     the NVLink that the name holds the number of
    """

    name: str
    factor: float
    since: str
    labels: tuple[tuple[str, str], ...] = ()
    link: int | None = None

    @property
    def key(self) -> str:
        """The name, with the labels it needs as the registry writes them."""
        needed = ",".join(f"{key}={value}" for key, value in self.labels)
        return f"{self.name}{{{needed}}}" if needed else self.name


@dataclass(frozen=True, slots=True)
class Signal:
    """One canonical signal; the fields are explained at the head of signals.toml."""

    column: str
    kind: Kind
    type: str
    unit: str
    doc: str
    max: float
    spellings: tuple[Spelling, ...]
    min: float = 0
    decimals: int = 0
    instance: bool = False
    zero: str | None = None
    entity: Entity = "gpu"
    table: str = "gpu_sample"
    names: Mapping[str, float] = field(init=False, hash=False, compare=False)

    def __post_init__(self) -> None:
        names = {s.name: s.factor for s in self.spellings if not s.labels}
        object.__setattr__(self, "names", names)

    def as_column(self) -> Column:
        decimals = self.decimals if self.type == "DOUBLE" else None
        doc = f"{self.doc} ({self.kind})"
        return Column(self.column, self.type, doc, unit=self.unit, decimals=decimals)


def _spellings(names: Mapping[str, tuple[float, str]]) -> Iterator[Spelling]:
    """The spellings that a registry line lists, one for each link a name stands for."""
    for written, (factor, since) in names.items():
        selected = _SELECTED.fullmatch(written)
        if _LINK in written:
            for link in range(_LINK_COUNT):
                yield Spelling(written.replace(_LINK, str(link)), factor, since, link=link)
        elif selected:
            pairs = (pair.split("=") for pair in selected[2].split(","))
            labels = tuple((key, value) for key, value in pairs)
            yield Spelling(selected[1], factor, since, labels)
        else:
            yield Spelling(written, factor, since)


def read_signals(path: Path) -> tuple[Signal, ...]:
    """All signals of the registry, in its order."""
    with path.open("rb") as file:
        lines = tomllib.load(file)
    return tuple(
        Signal(column, spellings=tuple(_spellings(spec.pop("names"))), **spec)
        for column, spec in lines.items()
    )


# The state of a link, a code that becomes a word.
LINK_STATUS = "link_status"

# All signals; those that are columns of gpu_sample come first, so that a signal's number is also
# that of its column.
REGISTRY = tuple(
    sorted(
        read_signals(Path(__file__).with_name("signals.toml")),
        key=lambda signal: signal.table != "gpu_sample",
    )
)
SIGNALS = tuple(signal for signal in REGISTRY if signal.table == "gpu_sample")

# What DCGM prints where it has no value, by the number's text (dcgm_structs.h). As doubles the four
# 64-bit values are one number, so only the text tells them apart.
SENTINELS: Mapping[str, str] = {
    **dict(
        zip(
            (str(base + code) for base in (2**31 - 16, 2**63 - 16, 2**47) for code in range(4)),
            ("blank", "not_found", "not_supported", "not_permitted") * 3,
            strict=True,
        )
    ),
    "N/A": "blank",
    "<<<NULL>>>": "blank",
    "<<<NOT_FOUND>>>": "not_found",
    "<<<NOT_SUPPORTED>>>": "not_supported",
    "<<<NOT_PERM>>>": "not_permitted",
}
# Stands in the place of a value's text where Prometheus marks that a series has ended.
STALE = "<<<STALE>>>"
