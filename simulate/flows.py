"""Network flows, as lines of a VPC flow log of version 2 (fields of the Amazon VPC user guide)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .reads import ACCOUNT

HEADER = (
    "version account-id interface-id srcaddr dstaddr srcport dstport protocol packets bytes start end"
    " action log-status"
)
PACKET_BYTES = 1400


@dataclass(frozen=True, slots=True)
class Flow:
    """Bytes from one address to another within `seconds` from `start_s`."""

    src_ip: str
    dst_ip: str
    start_s: float
    seconds: float
    sent_bytes: int


def write(flows: Iterable[Flow], path: Path) -> None:
    """All records in one file, by time, each flow a window of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [HEADER]
    for number, flow in enumerate(sorted(flows, key=lambda f: (f.start_s, f.src_ip, f.dst_ip))):
        interface = "eni-" + flow.src_ip.replace(".", "")
        start_s, port = int(flow.start_s), 32_768 + number % 28_000
        lines.append(
            f"2 {ACCOUNT} {interface} {flow.src_ip} {flow.dst_ip} {port} 443 6 "
            f"{flow.sent_bytes // PACKET_BYTES + 1} {flow.sent_bytes} {start_s} "
            f"{start_s + int(flow.seconds)} ACCEPT OK"
        )
    path.write_bytes(("\n".join(lines) + "\n").encode())
