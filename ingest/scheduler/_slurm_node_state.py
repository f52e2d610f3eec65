"""Slurm's node states in every spelling: `IDLE+DRAIN`, `DOWN*`, `mix-`, `drng@`, `["IDLE", "DRAIN"]`."""

from __future__ import annotations

BASES = {
    "IDLE": "IDLE",
    "ALLOCATED": "ALLOCATED",
    "ALLOC": "ALLOCATED",
    "MIXED": "MIXED",
    "MIX": "MIXED",
    "DOWN": "DOWN",
    "ERROR": "ERROR",
    "ERR": "ERROR",
    "FUTURE": "FUTURE",
    "FUTR": "FUTURE",
    "UNKNOWN": "UNKNOWN",
    "UNK": "UNKNOWN",
}
# Short and old names of flags (slurm: doc/man/man1/sinfo.1, NODE STATE CODES; slurm/slurm.h).
FLAG_NAMES = {
    "DRAINED": "DRAIN",
    "DRAINING": "DRAIN",
    "DRNG": "DRAIN",
    "COMP": "COMPLETING",
    "FAILING": "FAIL",
    "FAILG": "FAIL",
    "MAINT": "MAINTENANCE",
    "RES": "RESERVED",
    "RESV": "RESERVED",
    "PLND": "PLANNED",
    "NO_RESPOND": "NOT_RESPONDING",
    "POW_DN": "POWERED_DOWN",
    "POWER_SAVE": "POWERED_DOWN",
    "POW_UP": "POWERING_UP",
    "BOOT": "REBOOT_REQUESTED",
    "REBOOT": "REBOOT_REQUESTED",
    "INVAL": "INVALID_REG",
}
SUFFIXES = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "!": "POWER_DOWN",
    "%": "POWERING_DOWN",
    "$": "MAINTENANCE",
    "@": "REBOOT_REQUESTED",
    "^": "REBOOT_ISSUED",
    "-": "PLANNED",
    "+": "COMPLETING",
}
# What keeps new jobs away. A node that is powered down is not here: Slurm wakes it for a job.
CLOSED_BY = frozenset(
    {
        *("DRAIN", "FAIL", "NOT_RESPONDING", "MAINTENANCE", "RESERVED", "INVALID_REG", "BLOCKED"),
        *("POWERING_DOWN", "POWER_DOWN", "REBOOT_REQUESTED", "REBOOT_ISSUED"),
    }
)


def parse_node_state(text: str) -> tuple[str | None, list[str]]:
    """Base state (None where a short form leaves it open) and flags, sorted.

    A word this reader does not know is kept as a flag.
    """
    base: str | None = None
    flags: set[str] = set()
    body = text.strip().upper()
    for word in body.rstrip("".join(SUFFIXES)).split("+"):
        flags |= {SUFFIXES[mark] for mark in word if mark in SUFFIXES}
        name = word.strip("".join(SUFFIXES)).strip()
        if name in BASES:
            base = BASES[name]
        elif name:
            flags.add(FLAG_NAMES.get(name, name))
    flags |= {SUFFIXES[mark] for mark in body[len(body.rstrip("".join(SUFFIXES))) :]}
    if base is None and flags == {"PLANNED"}:
        # Only an idle node is shown as planned and nothing else.
        base = "IDLE"
    return base, sorted(flags)


def is_schedulable(base: str | None, flags: list[str]) -> bool | None:
    """May it take new jobs outside reservations? None where the base state is not known."""
    if CLOSED_BY & set(flags) or base in {"DOWN", "ERROR", "FUTURE"}:
        return False
    return True if base in {"IDLE", "ALLOCATED", "MIXED"} else None
