"""`nvidia-smi nvlink --status` and `--errorcounters`: lines of links below a line of their GPU."""

from __future__ import annotations

import re
from typing import NamedTuple

from ._nvidia_smi_values import read_number

GPU_LINE = re.compile(r"GPU (\d{1,4}): (.+?) \(UUID: (\S+)\)\s*")
LINK_LINE = re.compile(r"\s+Link (\d{1,3})(?:: (.+?)|, .+)\s*")
_COUNTERS = {
    "Replay Errors": "replay_error_count",
    "Recovery Errors": "recovery_error_count",
    "CRC Errors": "crc_flit_error_count",
}


class LinkFact(NamedTuple):
    """What one line says of a link: a column of gpu_link_sample (None: nothing that is kept)."""

    link: int
    column: str | None
    value: str | float | None


def read_link(text: str) -> LinkFact | None:
    """A line of a link; None where it cannot be read."""
    found = LINK_LINE.fullmatch(text)
    if not found:
        return None
    link, said = int(found[1]), found[2]
    if said is None:
        # `Link 0, P2P is supported: true`: capabilities.
        return LinkFact(link, None, None)
    if said == "<inactive>":
        return LinkFact(link, "state", "inactive")
    speed = read_number(said, "speed_bytes_per_s", "bytes/s")
    if speed is not None:
        return LinkFact(link, "speed_bytes_per_s", speed)
    name, _, count = said.partition(": ")
    if name in _COUNTERS and count.isdigit():
        return LinkFact(link, _COUNTERS[name], float(count))
    return LinkFact(link, None, None) if count else None
