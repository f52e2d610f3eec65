"""One name per collective, whatever the record calls it."""

from __future__ import annotations

import polars as pl

# Longest first, so that reduce_scatter is not taken for reduce. Spellings vary by library and
# version: AllReduce, ALLREDUCE, allreduce, _all_gather_base, all_gather_into_tensor_coalesced,
# AlltoAll, broadcast_oop, recvAnySource.
OPERATIONS = {
    name.replace("_", ""): name
    for name in (
        "reduce_scatter", "all_reduce", "all_gather", "all_to_all", "send_recv", "broadcast",
        "barrier", "scatter", "gather", "reduce", "send", "recv",
    )
}  # fmt: skip
_KERNEL = r"^(?:void )?(?:nccl|rccl|msccl)(?:Dev)?(?:Kernel)?_?([A-Za-z]+)"
_ALGORITHM = (
    r"(?i)_?(COLLNET_DIRECT|COLLNET_CHAIN|NVLS_TREE|NVLS|RING|TREE|PAT)(?:_|LL|Simple|$|\()"
)
_PROTOCOL = r"(?i)_?(LL128|LL|SIMPLE)(?:_|Kernel|$|\(|<)"


def operation(name: pl.Expr) -> pl.Expr:
    """The name all sources share; one that is none of them stays, in lower case."""
    word = name.str.to_lowercase().str.strip_chars("_")
    squeezed = word.str.replace_all("_", "", literal=True)
    known = [
        pl.when(squeezed.str.starts_with(start)).then(pl.lit(to))
        for start, to in OPERATIONS.items()
    ]
    return pl.coalesce(*known, word)


def kernel_operation(name: pl.Expr) -> dict[str, pl.Expr]:
    """Function, algorithm and protocol in the name of a communication kernel:
    `ncclDevKernel_AllReduce_Sum_bf16_RING_LL(...)`, `ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t`,
    `ncclAllReduceRingLLKernel_sum_f32`. `Generic` kernels carry any function: NULL.
    """
    word = name.str.extract(_KERNEL)
    is_named = ~word.str.to_lowercase().str.contains("generic|kernel$") | word.str.contains(
        "(?i)ring|tree"
    )
    return {
        "function": pl.when(is_named).then(operation(word)),
        "algorithm": name.str.extract(_ALGORITHM).str.to_uppercase(),
        "protocol": name.str.extract(_PROTOCOL).str.to_uppercase(),
    }
