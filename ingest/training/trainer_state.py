"""trainer_state.json of the Hugging Face Trainer."""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Option, Parsed, source

from .._json_values import finite
from ..tables.train_step import TRAIN_STEP


@source(
    outputs=(TRAIN_STEP,),
    reads="document",
    options=(
        Option("job_id", "job of the run: the file names none"),
        Option("attempt", "attempt of the job as in job_attempt", "1"),
    ),
    sniff=lambda head, _name: b'"log_history"' in head,
)
def trainer_state(content: bytes, context: Context) -> Parsed:
    """State of a transformers Trainer, written into every checkpoint (transformers 2 to 5).

    Entries of log_history with step and loss become rows; token_count is num_input_tokens_seen. The
    file holds neither times nor lengths of steps, nor the number of devices; times are relative. Evaluations and the closing summary are skipped. `line_no` is the entry's place.
    """
    job_id, attempt = context.options.get("job_id"), context.options["attempt"]
    if not job_id or not attempt.isdigit() or len(attempt) > 18:
        return _whole("job or attempt is not stated; --set job_id=JOB --set attempt=N")
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        return _whole(f"not JSON: {error}"[:300])
    history = document.get("log_history") if isinstance(document, dict) else None
    if not isinstance(history, list):
        return _whole("no list log_history: is it a trainer_state.json?")
    rows: list[dict[str, object]] = []
    bad: list[tuple[int, str, str]] = []
    for place, entry in enumerate(history, 1):
        if not isinstance(entry, dict):
            bad.append((place, "an entry of log_history is no object", str(entry)[:200]))
        elif "loss" in entry:
            step = finite(entry.get("step"))
            if step is None or not 0 <= step < 1 << 40 or step % 1:
                bad.append((place, "step is no whole number in range", json.dumps(entry)[:200]))
            else:
                rows.append(_row(place, int(step), entry))
    frame = pl.DataFrame(rows, schema=_SCHEMA, orient="row").with_columns(
        pl.from_epoch("step", time_unit="s").cast(pl.Datetime("us")).alias("ts"),
        pl.lit("relative").alias("time_basis"),
        pl.lit("transformers").alias("framework"),
        pl.lit(context.options["cluster"]).alias("cluster"),
        pl.lit(job_id).alias("job_id"),
        pl.lit(int(attempt)).alias("attempt"),
    )
    refused = pl.DataFrame(bad, schema=REJECTS_SCHEMA, orient="row")
    return Parsed({TRAIN_STEP.name: frame}, refused, len(history) - len(rows) - len(bad))


_SCHEMA = {
    "line_no": pl.Int64(),
    **{name: TRAIN_STEP.polars_schema()[name]
       for name in ("step", "loss", "grad_norm", "token_count", "field_count")},
}  # fmt: skip


def _row(place: int, step: int, entry: dict[str, Any]) -> dict[str, object]:
    tokens = finite(entry.get("num_input_tokens_seen"))
    values: dict[str, object] = {
        "loss": finite(entry.get("loss")),
        "grad_norm": finite(entry.get("grad_norm")),
        "token_count": None if tokens is None or not 0 <= tokens < 1 << 62 else int(tokens),
    }
    count = sum(value is not None for value in values.values())
    return {"line_no": place, "step": step, **values, "field_count": count}


def _whole(reason: str) -> Parsed:
    return Parsed({}, pl.DataFrame({"line_no": 0, "reason": reason, "text": ""}, REJECTS_SCHEMA))
