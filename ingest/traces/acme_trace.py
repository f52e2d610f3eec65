"""Acme: the released job logs of Seren and Kalos."""

from __future__ import annotations

import polars as pl

from fleetmark.source import Context, Parsed, source

from ..tables.job_attempt import JOB_ATTEMPT
from ._columns import header_has
from ._job_log import NEEDED, job_log_rows


def looks_like_acme(head: bytes, file_name: str) -> bool:  # noqa: ARG001 - the header tells
    """A job log with workload types."""
    return header_has(head, (*NEEDED, "type"))


@source(
    outputs=(JOB_ATTEMPT,),
    reads="lines",
    name_facts=r"^trace_(?P<cluster>[a-z]+)\.csv",
    sniff=looks_like_acme,
)
def acme_trace(lines: pl.DataFrame, context: Context) -> Parsed:
    """`trace_seren.csv`, `trace_kalos.csv` of AcmeTrace: one line a job, workload type included.

    Times carry an offset (+08:00 in Seren, +00:00 in Kalos). Kalos' `duration` holds the queue too:
    elapsed_s is computed, native_elapsed_s the file's, elapsed_mismatch_s their difference.
    """
    return job_log_rows(lines, context, "trace_acme", with_zone=True)
