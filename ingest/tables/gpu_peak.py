"""`gpu_peak`: the dense peak rate of each GPU model and precision."""

from __future__ import annotations

from fleetmark.table import Column, Table

GPU_PEAK = Table(
    name="gpu_peak",
    doc="Peak rates by GPU model and precision: dense, never with structured sparsity, per device as the "
    "scheduler counts it. A GPU's name takes the first pattern that fits, in match_order.",
    grain=("gpu_model", "precision"),
    latest=("recorded_ts",),
    sort=("match_order",),
    columns=(
        Column("match_order", "BIGINT", "patterns are tried in this order: GB200 before B200, H100 NVL "
               "and PCIe before H100", null=False),
        Column("pattern", "VARCHAR", "regular expression (RE2), capitals do not matter", null=False),
        Column("gpu_model", "VARCHAR", "what it stands for"),
        Column("precision", "VARCHAR", "tf32, fp16_bf16, fp8 or fp4"),
        Column("dense_tflops", "DOUBLE", "peak of dense matrix products", "TFLOP/s", null=False),
        Column("spec_clock_mhz", "DOUBLE", "clock the peak is stated for; NULL: not published", "MHz"),
        Column("source", "VARCHAR", "where the figure was read", null=False),
        Column("caveat", "VARCHAR", "what to know before relying on it"),
        Column("recorded_ts", "TIMESTAMP", "when the entry was written: of two the later counts"),
    ),
)  # fmt: skip
