"""FLOPs per trained token under named conventions, as terms over the columns of model_shape.

A convention is a sum of terms, each an expression; forward and backward together, a multiply-add
counted as two. A term whose inputs are unknown makes the figure NULL.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import polars as pl

Kind = Literal["mfu", "hfu", "error"]
DEFAULT = "palm"

LAYERS, WIDTH = pl.col("layer_count"), pl.col("hidden_size")
VOCABULARY, LENGTH = pl.col("vocab_size"), pl.col("seq_len")
# Heads by their width; equal to the model's width in most models, not in PaLM.
HEADS_WIDTH = pl.coalesce(pl.col("head_count") * pl.col("head_dim"), WIDTH)
KV_WIDTH = pl.coalesce(HEADS_WIDTH * pl.col("kv_head_count") / pl.col("head_count"), HEADS_WIDTH)
EMBEDDING = VOCABULARY * WIDTH
FFN = pl.col("ffn_size") * WIDTH * pl.when("is_gated").then(3).when(~pl.col("is_gated")).then(2)
MOE_LAYERS = (
    pl.when(pl.col("expert_count").is_null() | (pl.col("expert_count") <= 1))
    .then(0)
    .otherwise(pl.coalesce("moe_layer_count", "layer_count"))
)
# Layers without experts beside layers with them: their feed-forward has a width of its own, which no
# column holds.
PASSES = (
    pl.when(MOE_LAYERS == 0)
    .then(LAYERS)
    .when(MOE_LAYERS == LAYERS)
    .then(LAYERS * pl.col("active_expert_count"))
)


# A token of a mixture of experts passes only some of the parameters; the total overstates 5 to 20 times.
STATED_PARAMETERS = pl.coalesce(
    "active_parameter_count", pl.when(MOE_LAYERS == 0).then("parameter_count")
)
ROUTER = MOE_LAYERS * WIDTH * pl.coalesce("expert_count", pl.lit(0))
PROJECTIONS = LAYERS * WIDTH * (2 * HEADS_WIDTH + 2 * KV_WIDTH)
# Norms and biases are left out: less than a thousandth.
SHAPE_PARAMETERS = (
    PROJECTIONS
    + PASSES * FFN
    + ROUTER
    + EMBEDDING * pl.when("is_tied").then(1).when(~pl.col("is_tied")).then(2)
)
PARAMETERS = pl.coalesce(STATED_PARAMETERS, SHAPE_PARAMETERS)


def attention(per_position: float) -> pl.Expr:
    """Scores and their sum: `per_position` FLOPs per layer, position attended to and unit of width.

    12 counts every position, 6 only those before a token (causal), 16 and 24 add recomputation.
    """
    return per_position * LAYERS * HEADS_WIDTH * LENGTH


@dataclass(frozen=True, slots=True)
class Convention:
    """One way to count.

    kind     mfu: what the model needs; hfu: what the hardware does, recomputation counted; error: a
             published formula with a known fault, kept to recognise its figures
    formula  in words, B s L h V as in the papers, per token
    source   who uses it
    corrected  for hfu and error: the convention without recomputation, without the fault
    """

    id: str
    kind: Kind
    formula: str
    source: str
    terms: Mapping[str, pl.Expr]
    corrected: str | None = None


_MATMULS = {
    "projections": 6 * PROJECTIONS,
    "feed_forward": 6 * PASSES * FFN,
    "router": 6 * ROUTER,
    "vocabulary": 6 * EMBEDDING,
}
_GPT_LAYERS = LAYERS * WIDTH * WIDTH

_ALL = (
    Convention(
        "palm", "mfu", "6 N + 12 L H Q s",
        "PaLM (arXiv 2204.02311) appendix B; nanoGPT estimate_mfu",
        {"parameters": 6 * PARAMETERS, "attention": attention(12)},
    ),
    Convention(
        "palm_causal", "mfu", "6 N + 6 L H Q s",
        "the same, half of the attention: only positions before a token count",
        {"parameters": 6 * PARAMETERS, "attention": attention(6)},
    ),
    Convention(
        "6n", "mfu", "6 N", "Kaplan et al. (arXiv 2001.08361): no attention",
        {"parameters": 6 * PARAMETERS},
    ),
    Convention(
        "llm_foundry", "mfu", "6 N + 12 L h s",
        "mosaicml/llm-foundry scripts/train/benchmarking; Composer's SpeedMonitor",
        {"parameters": 6 * PARAMETERS, "attention": 12 * LAYERS * WIDTH * LENGTH},
    ),
    Convention(
        "torchtitan", "mfu", "6 (N - V h) + 12 L H Q s",
        "pytorch/torchtitan get_num_flop_per_token: the input embedding is not counted",
        {"parameters": 6 * (PARAMETERS - EMBEDDING), "attention": attention(12)},
    ),
    Convention(
        "matmul", "mfu",
        "6 L h (2 H Q + 2 K Q) + 6 L f h (2, gated 3) x active experts + 6 L h E + 6 h V + 12 L H Q s",
        "every matrix product of the layers: Megatron-LM num_floating_point_operations, 2024-03 to "
        "2025-02; MaxText before PR 1988",
        {**_MATMULS, "attention": attention(12)},
    ),
    Convention(
        "matmul_causal", "mfu", "as matmul, attention 6 L H Q s",
        "Megatron-LM since 2025-03, MaxText since PR 1988",
        {**_MATMULS, "attention": attention(6)},
    ),
    Convention(
        "narayanan", "mfu", "72 L h^2 (1 + s/(6h) + V/(12 L h))",
        "Narayanan et al. (arXiv 2104.04473) without recomputation: ffn 4h, no gate, full attention",
        {"layers": 72 * _GPT_LAYERS, "attention": 12 * LAYERS * WIDTH * LENGTH,
         "vocabulary": 6 * EMBEDDING},
    ),
    Convention(
        "narayanan_full", "hfu", "96 L h^2 (1 + s/(6h) + V/(16 L h))",
        "the same with full recomputation, as the paper prints it; BigScience's TFLOPs",
        {"layers": 96 * _GPT_LAYERS, "attention": 16 * LAYERS * WIDTH * LENGTH,
         "vocabulary": 6 * EMBEDDING},
        "narayanan",
    ),
    Convention(
        "korthikanti_selective", "hfu", "72 L h^2 (1 + s/(3h) + V/(12 L h))",
        "Korthikanti et al. (arXiv 2205.05198): the attention core is computed once more",
        {"layers": 72 * _GPT_LAYERS, "attention": 24 * LAYERS * WIDTH * LENGTH,
         "vocabulary": 6 * EMBEDDING},
        "narayanan",
    ),
    Convention(
        "palm_full", "hfu", "8 N + 16 L H Q s", "palm with the forward pass a second time (4/3)",
        {"parameters": 8 * PARAMETERS, "attention": attention(16)},
        "palm",
    ),
    Convention(
        "palm_selective", "hfu", "6 N + 16 L H Q s",
        "palm with the forward pass of the attention core a second time",
        {"parameters": 6 * PARAMETERS, "attention": attention(16)},
        "palm",
    ),
    Convention(
        "8n", "hfu", "8 N", "Narayanan et al. equation 4 (days to train): full recomputation",
        {"parameters": 8 * PARAMETERS},
        "6n",
    ),
    Convention(
        "megatron_deepspeed", "error", "72 L h^2 (1 + s/(6h) + V/(16 L h))",
        "Megatron-DeepSpeed without recomputation before PR 223: 16 where it should be 12",
        {"layers": 72 * _GPT_LAYERS, "attention": 12 * LAYERS * WIDTH * LENGTH,
         "vocabulary": 4.5 * EMBEDDING},
        "narayanan",
    ),
)  # fmt: skip
CONVENTIONS: Mapping[str, Convention] = {convention.id: convention for convention in _ALL}
# What a run executes beyond the model's FLOPs, by its recomputation, for the default convention.
EXECUTED: Mapping[str, str] = {"none": "palm", "selective": "palm_selective", "full": "palm_full"}

SHAPE: Mapping[str, pl.DataType] = {
    "parameter_count": pl.Float64(), "active_parameter_count": pl.Float64(),
    "layer_count": pl.Int64(), "hidden_size": pl.Int64(), "head_count": pl.Int64(),
    "kv_head_count": pl.Int64(), "head_dim": pl.Int64(), "ffn_size": pl.Int64(),
    "is_gated": pl.Boolean(), "vocab_size": pl.Int64(), "is_tied": pl.Boolean(), "seq_len": pl.Int64(),
    "expert_count": pl.Int64(), "active_expert_count": pl.Int64(), "moe_layer_count": pl.Int64(),
}  # fmt: skip


def flops_per_token(convention: Convention) -> pl.Expr:
    """FLOPs per token over the columns of SHAPE; NULL where a term's input is unknown."""
    total = pl.lit(0.0)
    for term in convention.terms.values():
        total = total + term.cast(pl.Float64)
    return total


def by_convention(rows: pl.DataFrame, ids: Iterable[str]) -> pl.DataFrame:
    """Each row once per convention, with `convention`, its `kind`, `flops_per_token`, `terms`.

    `terms` is JSON: FLOPs per token by term. Rows whose FLOPs are NULL are left out. With
    `parameter_source`: stated, shape (counted from it), or NULL where neither is known.
    """
    typed = rows.with_columns(pl.col(name).cast(kind) for name, kind in SHAPE.items())
    typed = typed.with_columns(
        pl.when(STATED_PARAMETERS.is_not_null())
        .then(pl.lit("stated"))
        .when(SHAPE_PARAMETERS.is_not_null())
        .then(pl.lit("shape"))
        .alias("parameter_source")
    )
    parts = []
    for name in ids:
        convention = CONVENTIONS[name]
        terms = pl.struct(
            term.cast(pl.Float64).alias(part) for part, term in convention.terms.items()
        )
        parts.append(
            typed.with_columns(
                pl.lit(name).alias("convention"),
                pl.lit(convention.kind).alias("kind"),
                flops_per_token(convention).alias("flops_per_token"),
                terms.struct.json_encode().alias("terms"),
            )
        )
    return pl.concat(parts).filter(pl.col("flops_per_token").is_not_null())
