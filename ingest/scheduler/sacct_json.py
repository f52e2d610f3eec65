"""Slurm accounting as JSON: `sacct --json` and slurmrestd's `/slurmdb/…/jobs`."""

from __future__ import annotations

import polars as pl

from fleetmark.source import Context, Parsed, source

from ..tables.job_attempt import JOB_ATTEMPT
from ..tables.job_step import JOB_STEP
from ._sacct_json_fields import rows_of
from ._sacct_rows import READ_FIELDS, accounting_rows, attempts, steps
from ._slurm_json import load, not_objects, records, reject
from .sacct import DUPLICATES, OBSERVED_AT


def looks_like_sacct_json(head: bytes, file_name: str) -> bool:  # noqa: ARG001 - the keys tell
    """An object with jobs that have allocation nodes, which only accounting lists."""
    return b'"jobs"' in head and b'"allocation_nodes"' in head


@source(
    outputs=(JOB_ATTEMPT, JOB_STEP),
    reads="document",
    options=(DUPLICATES, OBSERVED_AT),
    sniff=looks_like_sacct_json,
)
def sacct_json(content: bytes, context: Context) -> Parsed:
    """Slurm `sacct --json` and `/slurmdb/…/jobs` of slurmrestd, 21.08 (dbv0.0.37) to 26.05 (v0.0.45).

    Read by structure, field by field. Gives the rows that `sacct --parsable2` of the same jobs gives,
    less what JSON leaves out: uids (also of who cancelled), database indices, and up to 23.02 exit codes
    of what did not complete (0 stands there for any code: unknown). Unknown keys are passed over. A
    record is a job with its steps; 10,000 jobs of few steps per CPU second (measured).
    """
    document = load(content)
    if isinstance(document, str):
        empty = not content.strip()
        return Parsed({}) if empty else Parsed({}, reject([(1, document, _head(content))]))
    if "jobs" not in document:
        return Parsed({}, reject([(1, "no jobs: is it `sacct --json`?", _head(content))]))
    fields = [
        {"line_no": at, **row} for at, job in records(document, "jobs") for row in rows_of(job)
    ]
    schema = {"line_no": pl.Int64(), **dict.fromkeys(READ_FIELDS, pl.String())}
    filled = max((len(row) - 1 for row in fields), default=0)
    rows = accounting_rows(pl.DataFrame(fields, schema=schema), context, filled)
    is_bad = pl.col("problem").is_not_null() | pl.col("job_id").is_null()
    reason = pl.coalesce("problem", pl.lit("has no job_id"))
    bad = rows.filter(is_bad).select(
        "line_no",
        reason.alias("reason"),
        pl.format("job {}", pl.coalesce("jobid", pl.lit("?"))).alias("text"),
    )
    good = rows.filter(~is_bad)
    is_step = pl.col("step").is_not_null()
    return Parsed(
        tables={
            "job_attempt": attempts(good.filter(~is_step), context),
            "job_step": steps(good.filter(is_step)),
        },
        rejects=pl.concat([not_objects(document, "jobs"), bad]),
    )


def _head(content: bytes) -> str:
    return content[:200].decode("utf-8", "replace").replace("\0", "�")
