"""FLOP conventions against formulas written out, peaks by name, and the audit of published figures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import polars as pl
import pytest

from fleetmark.catalog import load_catalog
from fleetmark.errors import InputError
from fleetmark.mfu.audit import audit, entries, read_entries
from fleetmark.mfu.conventions import CONVENTIONS, SHAPE, by_convention
from fleetmark.mfu.peak import packaged, with_peak
from fleetmark.testing import complete, compute, parse_file, source_rows

CATALOG = load_catalog()
SAMPLES = Path(__file__).parent.parent / "samples/training"
# Llama 3 8B; Mixtral 8x7B, of whose 46.7e9 parameters 12.9e9 are active.
LLAMA = {
    "layer_count": 32, "hidden_size": 4096, "head_count": 32, "kv_head_count": 8, "head_dim": 128,
    "ffn_size": 14336, "is_gated": True, "is_tied": False, "vocab_size": 128256, "seq_len": 8192,
}  # fmt: skip
MIXTRAL = LLAMA | {
    "vocab_size": 32000,
    "seq_len": 4096,
    "expert_count": 8,
    "active_expert_count": 2,
}


def flops(shape: Mapping[str, object]) -> dict[str, float]:
    row = pl.DataFrame([shape], schema=dict(SHAPE), orient="row")
    found = by_convention(row, CONVENTIONS)
    return dict(zip(found["convention"], found["flops_per_token"], strict=True))


def test_conventions_count_llama_3_8b() -> None:
    """6 N + 12 L h s with N = 8.03e9; matrix products of the layers without the input embedding."""
    got = flops(LLAMA)
    attention = 12 * 32 * 4096 * 8192
    weights = 32 * (4096 * (2 * 4096 + 2 * 1024) + 3 * 4096 * 14336)
    assert got["6n"] / 6 == pytest.approx(8.03e9, rel=1e-4)
    assert got["palm"] == pytest.approx(got["6n"] + attention)
    assert got["matmul"] == pytest.approx(6 * (weights + 4096 * 128256) + attention)
    assert got["matmul_causal"] == pytest.approx(got["matmul"] - attention / 2)
    assert got["torchtitan"] == pytest.approx(got["palm"] - 6 * 4096 * 128256)
    assert got["palm_full"] == pytest.approx(4 / 3 * got["palm"])


def test_experts_count_by_what_a_token_passes() -> None:
    assert flops(MIXTRAL)["6n"] / 6 == pytest.approx(12.88e9, rel=2e-3)
    # The total alone says nothing about what a token passes.
    total = {"parameter_count": 46.7e9, "expert_count": 8}
    assert "6n" not in flops(total)
    assert flops({"parameter_count": 8e9})["6n"] == pytest.approx(48e9)


@pytest.mark.parametrize(
    ("name", "precision", "tflops"),
    [
        ("NVIDIA GB200", None, 2500),
        ("NVIDIA B200", "fp8", 4500),
        ("NVIDIA H200", "bf16", 989),
        ("NVIDIA H200 NVL", "bf16", None),
        ("NVIDIA H20", "bf16", 148),
        ("NVIDIA H100 NVL", "bf16", 835),
        ("NVIDIA H100 NVL", "fp8", None),
        ("NVIDIA H100 PCIe", "bf16", 756),
        ("NVIDIA H100 80GB HBM3", "bf16", 989),
        ("NVIDIA H100 80GB HBM3 MIG 3g.40gb", "bf16", None),
        ("nvidia l40s", "bf16", 362),
        ("NVIDIA A100-SXM4-80GB", "fp16", 312),
        ("NVIDIA A100-SXM4-80GB", "fp8", None),
        ("AMD Instinct MI250X GCD", "bf16", 191.5),
        ("Unheard Of 9000", "bf16", None),
    ],
)
def test_peaks_by_name(name: str, precision: str | None, tflops: float | None) -> None:
    rows = pl.DataFrame({"gpu_model": [name], "precision": [precision]},
                        schema={"gpu_model": pl.String(), "precision": pl.String()})  # fmt: skip
    assert with_peak(rows, packaged())["dense_tflops"].to_list() == [tflops]


def test_published_figures_recompute_and_known_faults_are_named() -> None:
    judged = audit(read_entries(SAMPLES / "published_mfu.csv"))
    verdicts = dict(zip(judged["id"], judged["verdict"], strict=True))
    assert {i for i, v in verdicts.items() if v == "contradicts_itself"} == {
        "megascale-megatron-256", "megascale-megatron-512", "megascale-megatron-1024",
        "megascale-megascale-12288",
    }  # fmt: skip
    assert verdicts["bloom-176b"] == "is_hfu"
    assert verdicts["megds-superbench"] == "formula_error"
    corrected = dict(zip(judged["id"], judged["corrected"], strict=True))
    assert corrected["bloom-176b"] / 312 == pytest.approx(0.360, abs=0.0005)
    assert corrected["megds-superbench"] == pytest.approx(148.68, abs=0.005)
    assert verdicts["gpt3-175b"] == "known_mismatch"
    others = set(verdicts.values()) - {
        "contradicts_itself",
        "is_hfu",
        "formula_error",
        "known_mismatch",
    }
    assert others == {"reproduced", "not_printed"}


def test_the_audit_tells_what_does_not_follow() -> None:
    """Korthikanti's 22B: half of the figure is the sparse peak's, and another formula is not its own."""
    row = {"quantity": "mfu", "published": "41.5", "tolerance": "0.2", "dense_tflops": 312, "gpu_count": 8,
           "step_s": 1.1, "global_batch_size": 4, "seq_len": 2048, "layer_count": 48, "hidden_size": 6144,
           "vocab_size": 51200}  # fmt: skip
    changes: list[dict[str, object]] = [
        {},
        {"dense_tflops": 624},
        {"convention": "narayanan_full"},
        {"published": "55.3"},
        {"step_s": ""},
    ]
    judged = audit(entries([row | change for change in changes], "test"))
    assert judged["verdict"].to_list() == [
        "reproduced", "not_reproduced", "other_convention", "is_hfu", "not_computable",
    ]  # fmt: skip
    with pytest.raises(InputError, match="entry 1: no convention 'x'"):
        entries([row | {"convention": "x"}], "test")
    with pytest.raises(InputError, match="entry 1: step_s 'fast' is no Float64"):
        entries([row | {"step_s": "fast"}], "test")


def test_a_log_alone_gives_what_it_should_have_logged() -> None:
    """Megatron-DeepSpeed printed 147.61 TFLOP/s for step 1; with the right vocabulary term it is 148.68.

    The shape comes from the arguments in the log. Its layers are GPT's, so that counting every matrix
    product gives what Narayanan's formula gives.
    """
    source = CATALOG.sources["train_log"]
    log = parse_file(source, SAMPLES / "superbench_megatron_deepspeed.log", job_id="J")
    rows, _ = source_rows(source, log)
    shape = rows["model_shape"].with_columns(pl.lit("NVIDIA A100-SXM4-80GB").alias("gpu_model"))
    found = job_mfu(rows["train_step"].filter(pl.col("step") == 1), shape, warmup_count=0)
    assert found["narayanan"]["model_tflops"] == pytest.approx(148.68, abs=0.005)
    assert found["matmul"]["model_tflops"] == pytest.approx(found["narayanan"]["model_tflops"])
    assert found["narayanan"]["logged_tflops"] == 147.61
    assert found["palm"]["parameter_source"] == "shape"
    assert found["palm"]["hfu_ratio"] == pytest.approx(found["palm"]["mfu_ratio"])


def test_fp8_over_the_peak_of_bf16_is_implausible() -> None:
    """MLPerf v5.1, Llama 3.1 405B on 512 GB200: 1152 samples of 8192 tokens in 17.27 s a step."""
    source = CATALOG.sources["mlperf"]
    log = parse_file(source, SAMPLES / "tyche_ngpu512_llama31_405b_result_0.txt")
    steps = source_rows(source, log)[0]["train_step"]
    row = {"cluster": "default", "job_id": steps["job_id"][0], "parameter_count": 405e9, "seq_len": 8192,
           "gpu_count": 512, "gpu_model": "NVIDIA GB200", "precision": "bf16"}  # fmt: skip
    wrong = job_mfu(steps, pl.DataFrame([row]), warmup_count=5)["6n"]
    rate = wrong["model_tflops"] * 1e12 / wrong["flops_per_token"]
    step_s = fmean(steps.filter(pl.col("step") > 5)["step_s"])
    assert rate == pytest.approx(1152 * 8192 / 512 / step_s, rel=1e-3)
    assert wrong["mfu_ratio"] > 1
    assert wrong["is_implausible"]
    right = job_mfu(steps, pl.DataFrame([row | {"precision": "fp8"}]), warmup_count=5)["6n"]
    assert right["mfu_ratio"] == pytest.approx(wrong["mfu_ratio"] / 2)
    assert not right["is_implausible"]


def job_mfu(steps: pl.DataFrame, shape: pl.DataFrame, **params: float) -> dict[str, dict[str, Any]]:
    """Rows of the model by convention, with the peaks that ship."""
    source = CATALOG.sources["gpu_peak"]
    inputs = {
        "train_step_run": steps,
        "model_shape": shape,
        "gpu_peak": source_rows(source, parse_file(source, source.packaged[0]))[0]["gpu_peak"],
        "job_attempt": CATALOG.tables["job_attempt"].empty(),
        "inventory_gpu_span": CATALOG.tables["inventory_gpu_span"].empty(),
    }
    typed = {name: complete(CATALOG.tables[name], frame) for name, frame in inputs.items()}
    found = compute(CATALOG, CATALOG.models["job_mfu"], typed, params)
    return {row["convention"]: row for row in found.rows(named=True)}
