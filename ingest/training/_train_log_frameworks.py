"""What each framework prints per step: where a record starts, and its fields by name.

To read one more framework, add it here. Fields are found by name anywhere behind the start of a
record, never by position: order and neighbours changed from release to release.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

NUMBER = r"'?(-?[0-9][0-9,]*\.?[0-9]*(?:[eE][-+]?[0-9]+)?|-?inf|nan)"


@dataclass(frozen=True, slots=True)
class Field:
    """A number behind a label.

    label    pattern of what stands before the number, the separator too
    factor   from the unit printed to the column's
    inverse  the log prints one divided by the column (steps per second)
    """

    label: str
    factor: float = 1.0
    inverse: bool = False


@dataclass(frozen=True, slots=True)
class Framework:
    """One form of records.

    start   pattern of a record's start
    step    pattern behind which the step's number stands, first match of several
    fields  columns of train_step by the fields that may hold them, best first
    before  the step's number stands before the record (a progress bar), at the end of this pattern
    hint    what to do where no step is named
    """

    name: str
    start: str
    step: tuple[str, ...]
    fields: Mapping[str, tuple[Field, ...]]
    before: bool = False
    hint: str = ""


# NVIDIA/Megatron-LM megatron/training/training.py (training_log), 2020 to 2026; the forks of
# BigScience (seconds, TFLOPs) and DeepSpeed (samples per second, consumed tokens, actual seqlen).
# Runs without an end are of infinity iterations.
_MEGATRON = Framework(
    "megatron",
    r"iteration +\d+/ *(?:\d+|infinity) *\|",
    (r"^iteration +",),
    {
        "step_s": (
            Field(r"\| *elapsed time per iteration \(ms\) *: *", 1e-3),
            Field(r"\| *elapsed time per iteration \(s\) *: *"),
        ),
        "global_batch_size": (Field(r"\| *global batch size *: *"),),
        "sample_count": (Field(r"\| *consumed samples *: *"),),
        "token_count": (Field(r"\| *consumed tokens *: *"),),
        "seq_len": (Field(r"\| *actual seqlen *: *"),),
        "samples_per_s": (Field(r"\| *samples per second *: *"),),
        "loss": (Field(r"\| *lm loss *: *"),),
        "grad_norm": (Field(r"\| *grad norm *: *"),),
        "logged_tflops": (
            Field(r"\| *throughput per GPU \(TFLOP/s/GPU\) *: *"),
            Field(r"\| *TFLOPs *: *"),
        ),
    },
)
# NVIDIA/NeMo: lightning/pytorch/callbacks/progress_printer.py; before 2024 a progress bar.
_NEMO = Framework(
    "nemo",
    r"(?:Training epoch \d+, iteration \d+/\d+ *\||\breduced_train_loss=)",
    (r"\bglobal_step *[:=] *", r"^Training epoch \d+, iteration "),
    {
        "step_s": (Field(r"\btrain_step_timing in s *[:=] *"),),
        "global_batch_size": (Field(r"\bglobal_batch_size *[:=] *"),),
        "sample_count": (Field(r"\bconsumed_samples *[:=] *"),),
        "tokens_per_gpu_s": (Field(r"\btokens_per_sec_per_gpu *[:=] *"),),
        "loss": (Field(r"\breduced_train_loss *[:=] *"),),
        "grad_norm": (Field(r"\bgrad_norm *[:=] *"),),
        "logged_tflops": (Field(r"\bTFLOPS_per_GPU *[:=] *"),),
    },
)
# deepspeedai/DeepSpeed: runtime/pipe/engine.py (train_batch). ThroughputTimer's lines are not read:
# they time the last micro-batch alone and count it as the whole batch. In a log that has both they say
# 315.6 samples per second where the run trained 27.2 (samples/training/superbench_megatron_deepspeed.log).
_DEEPSPEED = Framework(
    "deepspeed",
    r"steps: \d+ loss: ",
    (r"^steps: ",),
    {
        "step_s": (Field(r"\biter time \(s\): *"),),
        "samples_per_s": (Field(r"\bsamples/sec: *"),),
        "loss": (Field(r"\bloss: *"),),
    },
)
# pytorch/torchtitan: components/metrics.py; wps was renamed to tps, est_mfu is what forks print.
_TORCHTITAN = Framework(
    "torchtitan",
    r"step: +\d+ +loss: ",
    (r"^step: +",),
    {
        "step_s": (Field(r"\belapsed_time_per_step: *"),),
        "tokens_per_gpu_s": (Field(r"\b[tw]ps: *"),),
        "loss": (Field(r"\bloss: *"),),
        "grad_norm": (Field(r"\bgrad_norm: *"),),
        "logged_tflops": (Field(r"\b(?:est_)?tflops: *"),),
        "logged_mfu_ratio": (Field(r"\b(?:est_)?mfu: *", 1e-2),),
    },
)
# AI-Hypercomputer/maxtext: metric_logger.py; in 2023 TFLOP/s stood without "/device".
_MAXTEXT = Framework(
    "maxtext",
    r"completed step: \d+,",
    (r"^completed step: ",),
    {
        "step_s": (Field(r"\bseconds: *"),),
        "tokens_per_gpu_s": (Field(r"\bTokens/s/device: *"),),
        "loss": (Field(r"[ ,]loss: *"),),
        "logged_tflops": (Field(r"\bTFLOP/s(?:/device)?: *"),),
    },
)
# karpathy/nanoGPT: train.py. The mfu is a moving average, and negative until it has begun.
_NANOGPT = Framework(
    "nanogpt",
    r"iter \d+: loss ",
    (r"^iter ",),
    {
        "step_s": (Field(r"\btime ", 1e-3),),
        "loss": (Field(r": loss "),),
        "logged_mfu_ratio": (Field(r"\bmfu ", 1e-2),),
    },
)
# mosaicml/composer: loggers/console_logger.py, callbacks/speed_monitor.py. A record is the line
# that starts it and the indented lines behind, folded by train_log. time/batch names the step; the
# bracket counts within the epoch where the run's length is stated in epochs.
_COMPOSER = Framework(
    "composer",
    r"(?:\[epoch=\d+\])?\[(?:batch|sample|token|epoch|iteration)=\d+(?:/\d+)?\]:",
    (r"\b(?:Train )?time/batch: *", r"^\[batch="),
    {
        "step_s": (Field(r"\bthroughput/batches_per_sec: *", inverse=True),),
        "global_batch_size": (Field(r"\btrainer/global_batch_size: *"),),
        "sample_count": (Field(r"\btime/sample: *"),),
        "token_count": (Field(r"\btime/token: *"),),
        "samples_per_s": (Field(r"\bthroughput/samples_per_sec: *"),),
        "tokens_per_gpu_s": (Field(r"\bthroughput/device/tokens_per_sec: *"),),
        "loss": (Field(r"\bloss/train/total: *"),),
        "grad_norm": (Field(r"\bl2_norm/grad/global: *"),),
        "logged_tflops": (Field(r"\bthroughput/device/flops_per_sec: *", 1e-12),),
        "logged_mfu_ratio": (Field(r"\bthroughput/device/mfu: *"),),
    },
)
_DICT_FIELDS = {"loss": (Field(r"'loss': "),), "grad_norm": (Field(r"'grad_norm': "),)}
# modelscope/ms-swift prints the Trainer's dict with the step in it. Its train_speed is a mean since the start.
_SWIFT = Framework(
    "transformers",
    r"\{'loss': [^{}\x1e]{1,2000}'global_step/max_steps': ",
    (r"'global_step/max_steps': '",),
    _DICT_FIELDS,
)
# huggingface/transformers: trainer_callback.py (ProgressCallback prints the dict behind tqdm's bar,
# which alone names the step). Its seconds per step are a running mean of tqdm's.
_TRANSFORMERS = Framework(
    "transformers",
    r"\{'loss': ",
    (r"\b(\d+)/\d+ \[[0-9:]+<[^\]]*\][^\x1e]{0,40}$",),
    _DICT_FIELDS,
    before=True,
    hint=": without the progress bar, read trainer_state.json",
)

FRAMEWORKS = (
    _NEMO,
    _MEGATRON,
    _DEEPSPEED,
    _TORCHTITAN,
    _MAXTEXT,
    _NANOGPT,
    _COMPOSER,
    _SWIFT,
    _TRANSFORMERS,
)
