"""What a Lustre job id tells: a scheduler's job, or a program and a user."""

from __future__ import annotations

import polars as pl

# jobid_var SLURM_JOB_ID gives a number (an array task N_M), procname_uid gives `cp.0`.
_JOB = r"^([0-9]+(?:_[0-9]+)?)$"
_PROGRAM = r"^(.+)\.([0-9]{1,10})(?:\.|$)"


def job_columns(label: pl.Expr) -> list[pl.Expr]:
    """job_id, command and uid of a job id as the server writes it."""
    is_number = label.str.contains(_JOB)
    return [
        label.str.extract(_JOB).alias("job_id"),
        pl.when(~is_number).then(label.str.extract(_PROGRAM, 1)).alias("command"),
        pl.when(~is_number).then(label.str.extract(_PROGRAM, 2).cast(pl.Int64, strict=False)).alias("uid"),
    ]  # fmt: skip
