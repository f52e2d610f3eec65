"""The rules of the tree: who imports whom, how long a file and a function may be."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("ingest", "models", "detectors", "api", "dashboards", "simulate", "benchmarks")
FORBIDDEN_NAMES = re.compile(r"util|helper|common|manager|misc", re.IGNORECASE)
# Longest file and function, each exception with its reason.
MAX_FILE, MAX_FUNCTION = 300, 50
LONGER = {
    "tests/test_access.py": "one test per way in, role and team",
    "tests/test_api.py": "one test per promise of each route",
    "tests/test_page.py": "one test per panel, in one browser",
    "tests/test_pipeline.py": "one test per way a file can arrive",
    "tests/test_sql_guard.py": "a table of attacks, to be read in one piece",
}


def python_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    return [ROOT / name for name in listed]


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module


@pytest.mark.parametrize("folder", FOLDERS)
def test_folders_import_only_the_core_and_siblings(folder: str) -> None:
    others = tuple(f"fleetmark.{name}" for name in FOLDERS)
    for path in (ROOT / folder).rglob("*.py"):
        wrong = [
            name
            for name in imports(path)
            if name.startswith(others) or name.split(".")[0] in FOLDERS
        ]
        assert not wrong, f"{path}: imports {wrong}; folders meet only at tables"


def test_the_core_imports_no_folder() -> None:
    for path in (ROOT / "fleetmark").rglob("*.py"):
        wrong = [n for n in imports(path) if n.startswith(tuple(f"fleetmark.{f}" for f in FOLDERS))]
        assert not wrong, f"{path}: imports {wrong}"


# In the core arrows point one way: a module may import those before it, never those after.
ORDER = (
    "errors", "spared", "table", "source", "model", "detector", "store_tables", "catalog", "store_place", "store_open", "store",
    "pipeline", "summary",
)  # fmt: skip


def test_arrows_in_the_core_point_one_way() -> None:
    rank = {name: n for n, name in enumerate(ORDER)}
    for path in (ROOT / "fleetmark").rglob("*.py"):
        own = path.relative_to(ROOT / "fleetmark").parts[0].removesuffix(".py")
        if own not in rank:
            continue
        for name in imports(path):
            other = name.removeprefix("fleetmark.").split(".")[0]
            if name.startswith("fleetmark.") and other != own:
                assert other in rank, f"{path} imports {name}: not below {own}"
                assert rank[other] < rank[own], f"{path} imports {name}"


def test_only_the_edge_reads_clock_and_environment() -> None:
    edge = {"fleetmark/cli", "api/app.py"}
    for path in [*(ROOT / "fleetmark").rglob("*.py"), *(ROOT / "ingest").rglob("*.py")]:
        relative = str(path.relative_to(ROOT))
        if not any(relative.startswith(name) for name in edge):
            text = path.read_text(encoding="utf-8")
            found = re.findall(
                r"datetime\.now|utcnow|time\.time\(|os\.environ(?!\.setdefault)|os\.getenv", text
            )
            assert not found, f"{relative}: {found}"


def test_files_and_functions_are_short() -> None:
    long: list[str] = []
    for path in python_files():
        relative = str(path.relative_to(ROOT))
        text = path.read_text(encoding="utf-8")
        lines = text.count("\n")
        if lines > MAX_FILE and relative not in LONGER:
            long.append(f"{relative} has {lines} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or 0) - node.lineno + 1
                if length > MAX_FUNCTION:
                    long.append(f"{relative}: {node.name} has {length} lines")
    assert long == []


def test_names_say_what_is_inside() -> None:
    for path in python_files():
        assert not FORBIDDEN_NAMES.search(path.stem), f"{path}: name it after what it holds"


def test_nothing_speaks_of_the_workplace() -> None:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    signs = re.compile(r"/(?:work|root)/|bash_jobs|\bsubagent\b|pypi\.org/simple", re.IGNORECASE)
    for name in listed:
        path = ROOT / name
        if path.suffix in (".py", ".sql", ".md", ".toml", ".yml", ".yaml", ".sh", ".lock", ".json"):
            if name.startswith("samples/") or name == "tests/test_architecture.py":
                continue
            found = signs.search(path.read_text(encoding="utf-8"))
            assert found is None, f"{name}: {found}"
