"""What a value of nvidia-smi says: a number in a signal's unit, a code, a word, or why it is none."""

from __future__ import annotations

import re
from collections.abc import Mapping

# Spellings of units: the unit of the signal, and the factor to it. nvidia-smi writes MiB; until about
# 2014 it wrote MB and meant the same.
_UNITS: Mapping[str, tuple[str, float]] = {
    "MHz": ("mhz", 1), "W": ("w", 1), "mW": ("w", 1e-3), "C": ("c", 1), "%": ("ratio", 0.01),
    "KiB": ("bytes", 1024), "MiB": ("bytes", 1_048_576), "MB": ("bytes", 1_048_576),
    "GiB": ("bytes", 1_073_741_824), "KB/s": ("bytes/s", 1e3), "MB/s": ("bytes/s", 1e6),
    "GB/s": ("bytes/s", 1e9), "us": ("s", 1e-6), "ms": ("s", 1e-3), "s": ("s", 1),
    "x": ("lanes", 1), "bank(s)": ("count", 1), "page(s)": ("count", 1),
}  # fmt: skip
# Units that nvidia-smi never writes.
_BARE = ("count", "generation", "lanes", "level", "code", "flag", "bits")
_NUMBER = re.compile(r"P?([+-]?\d+(?:\.\d+)?|0x[0-9a-fA-F]+) ?([A-Za-z%/()]*)")
_FLAGS = {"No": 0.0, "Yes": 1.0, "Not Active": 0.0, "Active": 1.0}
# nvml.h: nvmlDeviceGpuRecoveryAction_t, nvmlGpuFabricHealth summary.
RECOVERY = {
    "none": "none", "gpu reset": "gpu_reset", "reset": "gpu_reset", "node reboot": "node_reboot",
    "reboot": "node_reboot", "drain p2p": "drain_p2p", "drain and reset": "drain_and_reset",
}  # fmt: skip
_RECOVERY_CODES = ("none", "gpu_reset", "node_reboot", "drain_p2p", "drain_and_reset")
_HEALTH = {"Healthy": 1.0, "Unhealthy": 2.0, "Limited Capacity": 3.0}
_MODES = {"Enabled": True, "Disabled": False}
# Texts in place of a value, and what they mean; with and without brackets.
NO_VALUE: Mapping[str, str] = {
    "N/A": "not_supported",
    "Not Supported": "not_supported",
    "Requested functionality has been deprecated": "not_supported",
    "Function Not Found": "not_supported",
    "Not Found": "not_found",
    "Insufficient Permissions": "not_permitted",
    "ERR!": "unreadable",
    "Unknown Error": "unreadable",
    "GPU is lost": "gpu_lost",
    "GPU requires reset": "reset_required",
}


def no_value(text: str) -> str | None:
    """Why `text` is no value; None where it may be one. Empty is `blank`."""
    bare = text.strip().removeprefix("[").removesuffix("]")
    return NO_VALUE.get(bare) if bare else "blank"


def read_number(text: str, column: str, unit: str, printed_unit: str | None = None) -> float | None:
    """The number in the signal's `unit`; None where `text` is none, or one in another unit.

    printed_unit   unit of a number that carries none (a CSV header's); "" takes nvidia-smi's own
                   unit for granted, None refuses a number without one
    """
    text = text.strip()
    if column == "recovery_action":
        action = RECOVERY.get(text.lower())
        return float(_RECOVERY_CODES.index(action)) if action else None
    if column == "fabric_health_summary":
        return _HEALTH.get(text)
    if text in _FLAGS:
        return _FLAGS[text] if unit in ("flag", "count") else None
    found = _NUMBER.fullmatch(text)
    if not found:
        return None
    number = float(int(found[1], 16)) if found[1].startswith("0x") else float(found[1])
    return _scaled(number, found[2] or printed_unit, unit)


def _scaled(number: float, printed: str | None, unit: str) -> float | None:
    if not printed:
        if unit in _BARE:
            return number
        own = next((factor for name, factor in _UNITS.values() if name == unit), 1.0)
        return number * _CSV_UNITS.get(unit, own) if printed == "" else None
    name, factor = _UNITS.get(printed, ("", 0.0))
    return number * factor if name == unit else None


# What `--format=csv,nounits,noheader` leaves out (nvidia-smi --help-query-gpu).
_CSV_UNITS = {"bytes": 1_048_576.0, "ratio": 0.01, "s": 1e-6}


def read_mode(text: str) -> bool | None:
    """Enabled or Disabled."""
    return _MODES.get(text.strip())


def read_index(text: str) -> int | None:
    """A small whole number."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def read_word(text: str) -> str | None:
    """Free text, or None where it is no value or all zeros (masked or not set)."""
    text = text.strip()
    if no_value(text) or not re.search(r"[1-9A-Za-z]", text.removeprefix("0x")):
        return None
    return text


def snake(text: str) -> str | None:
    """A mode's name in lower case, words joined by `_`."""
    word = read_word(text)
    return re.sub(r"[^a-z0-9]+", "_", word.lower()).strip("_") if word else None
