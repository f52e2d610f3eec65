"""The header of `sacct --parsable2`: which columns there are, and what separates them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

# Every field `sacct --helpformat` has listed from 20.11 to 26.05; the header decides which exist.
FIELDS = tuple(
    """
Account AdminComment AllocCPUS AllocGRES AllocNodes AllocTRES AssocID AveCPU AveCPUFreq AveDiskRead
AveDiskWrite AvePages AveRSS AveVMSize BlockID Cluster Comment Constraints ConsumedEnergy
ConsumedEnergyRaw Container CPUTime CPUTimeRAW DBIndex DerivedExitCode Elapsed ElapsedRaw Eligible
End ExitCode Extra FailedNode Flags GID Group GresUsed JobID JobIDRaw JobName Layout Licenses
MaxDiskRead MaxDiskReadNode MaxDiskReadTask MaxDiskWrite MaxDiskWriteNode MaxDiskWriteTask MaxPages
MaxPagesNode MaxPagesTask MaxRSS MaxRSSNode MaxRSSTask MaxVMSize MaxVMSizeNode MaxVMSizeTask McsLabel
MinCPU MinCPUNode MinCPUTask NCPUS NNodes NodeList NTasks OriginalSLUID Partition Planned PlannedCPU
PlannedCPURAW Priority QOS QOSRAW QOSREQ Reason ReqCPUFreq ReqCPUFreqGov ReqCPUFreqMax ReqCPUFreqMin
ReqCPUS ReqGRES ReqMem ReqNodes ReqReservation ReqTRES Reservation ReservationId Reserved ResvCPU
ResvCPURAW Restarts SegmentSize SLUID Start State StdErr StdIn StdOut Submit SubmitLine Suspended
SystemComment SystemCPU Timelimit TimelimitRaw TotalCPU TRESUsageInAve TRESUsageInMax
TRESUsageInMaxNode TRESUsageInMaxTask TRESUsageInMin TRESUsageInMinNode TRESUsageInMinTask
TRESUsageInTot TRESUsageOutAve TRESUsageOutMax TRESUsageOutMaxNode TRESUsageOutMaxTask
TRESUsageOutMin TRESUsageOutMinNode TRESUsageOutMinTask TRESUsageOutTot UID User UserCPU WCKey WCKeyID
WorkDir
""".split()  # noqa: SIM905 - a list of 130 strings, one a line, would hide them
)

_KNOWN = {name.lower() for name in FIELDS}
_ANY_FIELD = "|".join(sorted(FIELDS, key=len, reverse=True))
_FIRST_TWO = re.compile(rf"({_ANY_FIELD})( +|.{{1,8}}?)({_ANY_FIELD})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Header:
    """Column names (lower case) in order, the delimiter, and whether lines end with one (`-p`)."""

    text: str
    names: tuple[str, ...]
    delimiter: str
    is_trailing: bool

    @property
    def positions(self) -> Mapping[str, int]:
        return {name: at for at, name in reversed(list(enumerate(self.names)))}

    @property
    def delimiters_per_line(self) -> int:
        return len(self.names) - 1 + self.is_trailing


def read_header(line: str) -> Header | str:
    """The header in `line`, or why it is none and what to do."""
    line = line.removeprefix("\ufeff")
    first = _FIRST_TWO.match(line)
    if first is None:
        return (
            "the first line is no sacct header: collect without -n, "
            "or state the columns with --set columns=JobID,State,..."
        )
    delimiter = first.group(2)
    if not delimiter.strip(" "):
        return "is sacct's table for people, whose values are cut: collect with --parsable2"
    names = line.split(delimiter)
    is_trailing = names[-1] == ""
    if is_trailing:
        names.pop()
    lowered = tuple(name.strip().lower() for name in names)
    if not all(re.fullmatch(r"\w+", name) for name in lowered):
        return f"the first line is no sacct header split by {delimiter!r}: collect with --parsable2"
    return Header(line, lowered, delimiter, is_trailing)


def stated_header(columns: str, delimiter: str, is_trailing: bool) -> Header | str:
    """The header a user states for a file without one (`sacct -n`)."""
    names = tuple(name.strip().lower() for name in columns.split(","))
    if unknown := [name for name in names if name not in _KNOWN]:
        return f"columns={columns}: sacct has no field {', '.join(unknown)}"
    return Header("", names, delimiter, is_trailing)
