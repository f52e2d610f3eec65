"""Helios: the released job logs."""

from __future__ import annotations

import polars as pl

from fleetmark.source import Context, Parsed, source

from ..tables.job_attempt import JOB_ATTEMPT
from ._columns import header_has
from ._job_log import NEEDED, job_log_rows


def looks_like_helios(head: bytes, file_name: str) -> bool:  # noqa: ARG001 - the header tells
    """A job log with virtual clusters."""
    return header_has(head, (*NEEDED, "vc"))


@source(outputs=(JOB_ATTEMPT,), reads="lines", sniff=looks_like_helios)
def helios_trace(lines: pl.DataFrame, context: Context) -> Parsed:
    """`cluster_log.csv` of HeliosData (Venus, Earth, Saturn, Uranus): one line a job.

    The virtual cluster stands as `partition`. Times have no zone and stay on the clock of the data
    set. A job has one line, the last of its attempts, whatever came before.
    """
    return job_log_rows(lines, context, "trace_helios", with_zone=False)
