"""Commands about model FLOPs: the audit of a figure, and the conventions it knows."""

from __future__ import annotations

from pathlib import Path

import click

from fleetmark.cli.shell import command, json_option, show


@click.group()
def mfu() -> None:
    """Model FLOPs utilisation: audit figures, list the conventions."""


@command
@click.argument("claim", nargs=-1, required=True, metavar="FILE|COLUMN=VALUE…")
@json_option
def audit(claim: tuple[str, ...], json: bool) -> int:
    r"""Recompute published or logged figures, and say which convention reproduces each, or that none does.

    FILE is a CSV with a header, or JSON lines; or state one figure as COLUMN=VALUE. Columns:
    quantity (mfu, hfu in percent; tflops per GPU; days), published, tolerance, convention, gpu_model,
    precision, gpu_count, dense_tflops, step_s, global_batch_size, tokens_per_gpu_s, token_count,
    duration_s, gpu_s, logged_tflops, flop_count, total_pflops, known_mismatch, id, note, and those of the
    table model_shape. Exit code 1 when a figure is not reproduced.

    \b
    fleetmark mfu audit quantity=mfu published=41.5 gpu_model=A100 gpu_count=8 step_s=1.1 \
        global_batch_size=4 seq_len=2048 layer_count=48 hidden_size=6144 vocab_size=51200
    """
    from fleetmark.mfu.audit import RESULT, entries, read_entries
    from fleetmark.mfu.audit import audit as run

    if all("=" in part for part in claim):
        found = entries([dict(part.split("=", 1) for part in claim)], "the figure")
    else:
        found = read_entries(Path(claim[0]))
    judged = run(found)
    show(RESULT, judged.rows(), json=json)
    failed = {"not_reproduced", "not_computable"}
    return 1 if failed & set(judged["verdict"]) else 0


@command
@json_option
def conventions(json: bool) -> None:
    """List the conventions: id, kind, FLOPs per token, who uses them."""
    from fleetmark.mfu.conventions import CONVENTIONS

    rows = [(c.id, c.kind, c.formula, c.source) for c in CONVENTIONS.values()]
    show(("convention", "kind", "formula", "source"), rows, json=json)


mfu.add_command(audit)
mfu.add_command(conventions)
