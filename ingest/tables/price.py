"""`price`: what an hour of a GPU costs."""

from __future__ import annotations

from fleetmark.table import Column, Table

PRICE = Table(
    name="price",
    doc="Prices of GPU-hours, as a site states them: list price, contract or own cost. One row per "
    "cluster, GPU model and time from which it holds.",
    grain=("cluster", "gpu_model", "start_ts"),
    latest=("recorded_ts",),
    sort=("cluster", "gpu_model", "start_ts"),
    columns=(
        Column("cluster", "VARCHAR", "cluster it is paid for"),
        Column(
            "gpu_model",
            "VARCHAR",
            "model as the scheduler types it (job_attempt.gpu_models); *: every model without a "
            "price of its own",
        ),
        Column("price_per_gpu_h", "DOUBLE", "price of an hour of one GPU, in currency", null=False),
        Column("currency", "VARCHAR", "currency, by its ISO 4217 code", null=False),
        Column("start_ts", "TIMESTAMP", "holds from, UTC; 1970-01-01: since always"),
        Column("end_ts", "TIMESTAMP", "holds until (not included), UTC; NULL: until further notice"),
        Column("recorded_ts", "TIMESTAMP", "when it was written: of two the later counts"),
    ),
)  # fmt: skip
