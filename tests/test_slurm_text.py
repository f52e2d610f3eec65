"""Text of Slurm's commands with formats of the user's own."""

from __future__ import annotations

import pytest

from fleetmark.catalog import load_catalog
from fleetmark.source import Context


@pytest.mark.parametrize("sign", ["|", ";", "^", ","])
def test_squeue_with_other_signs_between_fields(sign: str) -> None:
    source = load_catalog().sources["squeue"]
    lines = (
        ("JOBID", "STATE", "PARTITION"),
        ("7", "RUNNING", "main"),
        ("8", "PENDING", f"a{sign}b"),
    )
    text = "".join(f"{sign.join(cells)}\n" for cells in lines)
    options = {**source.defaults, "tz": "UTC", "observed_at": "2026-11-30T12:00:00"}
    read = source.parse(text.encode(), Context("x", options))  # type: ignore[arg-type]  # a document
    assert read.tables["queue_snapshot"].lazy().collect()["job_id"].to_list() == ["7"]
    assert read.rejects["reason"].to_list() == ["4 fields instead of 3"]
