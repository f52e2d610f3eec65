"""The registry of GPU signals (signals.toml): what each is, its column, and every exporter's name for it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from fleetmark.table import Column

Kind = Literal["gauge", "counter", "last", "mask", "constant"]


@dataclass(frozen=True, slots=True)
class Signal:
    """One canonical signal; the fields are explained at the head of signals.toml."""

    column: str
    kind: Kind
    type: str
    unit: str
    doc: str
    max: float
    names: Mapping[str, float] = field(hash=False)
    min: float = 0
    decimals: int = 0
    instance: bool = False
    zero: str | None = None

    def as_column(self) -> Column:
        decimals = self.decimals if self.type == "DOUBLE" else None
        doc = f"{self.doc} ({self.kind})"
        return Column(self.column, self.type, doc, unit=self.unit, decimals=decimals)


def read_signals(path: Path) -> tuple[Signal, ...]:
    """All signals of the registry, in its order."""
    with path.open("rb") as file:
        return tuple(Signal(column, **spec) for column, spec in tomllib.load(file).items())


SIGNALS = read_signals(Path(__file__).with_name("signals.toml"))

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
    "<<<NULL>>>": "blank",
    "<<<NOT_FOUND>>>": "not_found",
    "<<<NOT_SUPPORTED>>>": "not_supported",
    "<<<NOT_PERM>>>": "not_permitted",
}
# Stands in the place of a value's text where Prometheus marks that a series has ended.
STALE = "<<<STALE>>>"
