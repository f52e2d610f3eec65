"""The wheel: every tracked file of the packages, one top-level name, commands that start."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "-w",
            str(folder),
            str(ROOT),
        ],
        check=True,
    )
    return next(folder.glob("*.whl"))


def test_holds_every_tracked_file(wheel: Path) -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    mapped: dict[str, str] = settings["package-dir"]
    folders = {"fleetmark": "fleetmark"} | {path: name for name, path in mapped.items()}
    tracked = subprocess.run(
        ["git", "ls-files", *folders], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    expected = set()
    for name in filter(None, tracked):
        if name.startswith("dashboards/renderer/"):
            continue  # draws the pictures of the documentation, from a checkout
        top, rest = name.split("/", 1)
        expected.add(f"{folders[top].replace('.', '/')}/{rest}")
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert expected - inside == set()
    assert {name.split("/")[0] for name in inside} == {"fleetmark"}


def test_version_is_stated_once() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    from fleetmark import __version__  # noqa: PLC0415 - the value under test

    assert project["version"] == __version__


def test_help_loads_no_engine() -> None:
    program = (
        "import sys, fleetmark.cli; "
        "sys.exit(','.join({'duckdb', 'polars', 'fastapi', 'pyarrow'} & set(sys.modules)))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "") or ran.stderr.strip() == ""


def test_runs_beside_a_project_with_the_same_folder_names(tmp_path: Path) -> None:
    for name in ("models", "ingest", "api"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('not ours')\n")
    ran = subprocess.run(
        [Path(sys.executable).with_name("fleetmark"), "sources"],
        cwd=tmp_path, env={**os.environ, "FLEETMARK_STORE": "store"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "s3_access" in ran.stdout
