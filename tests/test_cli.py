"""The command as users run it: output, exit codes, messages; never a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FLEETMARK = str(Path(sys.executable).with_name("fleetmark"))
SAMPLES = Path(__file__).parent.parent / "samples"
SLURM = SAMPLES / "scheduler" / "slurm-22.05" / "sacct-parsable2-allocations.txt"


def fleetmark(*arguments: str, store: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    ran = subprocess.run(
        [FLEETMARK, *arguments],
        env={**os.environ, "FLEETMARK_STORE": str(store), **environment},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert "Traceback" not in ran.stderr
    return ran


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with real job records, built."""
    store = tmp_path_factory.mktemp("cli") / "store"
    fleetmark("ingest", "sacct", str(SLURM), "--set", "tz=UTC", store=store)
    assert fleetmark("build", store=store).returncode == 0
    return store


def test_data_on_stdout_log_on_stderr(filled: Path) -> None:
    ran = fleetmark("tables", "--json", store=filled)
    tables = {t["name"]: t for t in json.loads(ran.stdout)}
    assert (ran.returncode, ran.stderr) == (0, "")
    assert tables["job_attempt"]["row_count"] > 40
    assert len(tables["job_attempt"]["content_hash"]) == 16
    ran = fleetmark("build", "--json", store=filled)
    assert {m["ranges_computed"] for m in json.loads(ran.stdout)} == {0}


def test_sql(filled: Path) -> None:
    query = "SELECT state, count(*) AS n FROM job_attempt GROUP BY state ORDER BY n DESC LIMIT 2"
    shown = fleetmark("sql", query, store=filled).stdout.splitlines()
    assert shown[0].split() == ["state", "n"]
    assert (
        json.loads(fleetmark("sql", query, "--json", store=filled).stdout)[0]["state"]
        == "COMPLETED"
    )
    wrong = fleetmark("sql", "SELECT nothing FROM job_attempt", store=filled)
    assert wrong.returncode == 1
    assert 'Referenced column "nothing" not found' in wrong.stderr
    written = fleetmark("sql", "DELETE FROM job_attempt", store=filled)
    assert written.returncode == 1
    assert "read-only" in written.stderr
    empty = fleetmark("sql", "SELECT * FROM fair_share", store=filled)
    assert empty.returncode == 0
    assert empty.stderr == "fair_share has no rows; nothing is in assoc (source sacctmgr)\n"


def test_table_and_files(filled: Path) -> None:
    shown = fleetmark("tables", "job_attempt", "--json", store=filled)
    assert {c["column"] for c in json.loads(shown.stdout)} >= {"job_id", "attempt", "file_id"}
    listed = json.loads(fleetmark("files", "job_attempt", "--json", store=filled).stdout)
    assert listed
    assert all(Path(f["data_file"]).exists() and f["delete_file"] is None for f in listed)


def test_text_is_one_line_a_table_and_keeps_whole_numbers(filled: Path) -> None:
    shown = fleetmark("tables", store=filled).stdout
    assert len(shown.splitlines()) == len(json.loads(fleetmark("tables", "--json", store=filled).stdout)) + 1  # fmt: skip
    assert "\\n" not in shown
    values = "1011180.0::DOUBLE AS a, 1234567.89::DOUBLE AS b, 0.0058221234::DOUBLE AS c, 1e30 AS d"
    shown = fleetmark("sql", f"SELECT {values}", store=filled).stdout.splitlines()[1]
    assert shown.split() == ["1011180", "1234567.9", "0.00582212", "1e+30"]


def test_the_settings_of_the_readme_need_no_secret_until_detect(
    filled: Path, tmp_path: Path
) -> None:
    readme = (Path(__file__).parent.parent / "README.md").read_text()
    settings = tmp_path / "fleetmark.toml"
    settings.write_text(readme.split("```toml\n")[1].split("```")[0])
    for command in ("build", "findings"):
        ran = fleetmark(command, "--config", str(settings), store=filled)
        assert (ran.returncode, ran.stderr) == (0, ""), command


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["ingest", "sacct", "missing.txt"], 2, "missing.txt: no such file or folder"),
        (["ingest", "nope", __file__], 2, "no source nope; there are auto, "),
        (["ingest", "sacct", __file__, "--set", "tz=CEST+2"], 2, "no time zone name"),
        (["ingest", "dcgm_exporter", __file__, "--set", "ts=noon"], 2, "no time: write"),
        (["ingest", "kernel_log", __file__, "--set", "year=26"], 2, "no year of four digits"),
        (["ingest", "sacct", __file__, "--set", "zone=UTC"], 2, "sacct has no option zone; it has"),
        (["ingest", "sacct", __file__, "--set", "zone"], 2, "--set zone: write NAME=VALUE"),
        (["ingest", "sacct"], 2, "Missing argument"),
        (["detect", "nope"], 2, "no detector nope; there are"),
        (["tables", "nope"], 2, "no table nope; there are"),
        (["tables", "--store", "/nowhere"], 2, "no store at /nowhere"),
        (["tables", "--config", "missing.toml"], 2, "missing.toml: no such settings file"),
        (["serve", "--host", "0.0.0.0"], 2, "without authentication only 127.0.0.1"),  # noqa: S104 - refused
        (
            ["simulate", "nope", "--out", "x"],
            2,
            "no scenario named 'nope'; there are: ",
        ),
        (["accuracy", "nope"], 2, "nope"),
    ],
)
def test_wrong_use(arguments: list[str], code: int, message: str, filled: Path) -> None:
    ran = fleetmark(*arguments, store=filled)
    assert (ran.returncode, ran.stdout) == (code, "")
    assert message in ran.stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"\x00\x01\x02" * 500, "NUL bytes"),
        (b"a" * (10 << 20), "line of 10485760 bytes is longer than the limit of 1 MiB"),
        (b"nothing that is known\n", "nothing could be read: line 1:"),
    ],
)
def test_bad_input_is_a_message_and_exit_code_1(
    content: bytes, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "bad.log"
    path.write_bytes(content)
    ran = fleetmark("ingest", "s3_access", str(path), "--json", store=tmp_path / "store")
    assert ran.returncode == 1
    assert f"{path}: " in ran.stderr
    assert message in ran.stderr
    (report,) = json.loads(ran.stdout)
    assert (report["row_count"], report["reject_count"]) == (0, 1)


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("SELECT 1 AS a, 2 AS a, 3 AS a_1", [{"a": 1, "a_1": 2, "a_1_1": 3}]),
        ("SELECT 1 AS a WHERE false", []),
    ],
)
def test_no_column_of_an_answer_hides_another(query: str, shown: object, filled: Path) -> None:
    assert json.loads(fleetmark("sql", query, "--json", store=filled).stdout) == shown


@pytest.mark.parametrize("query", ["", " -- nothing", ";"])
def test_no_statement_is_a_message(query: str, filled: Path) -> None:
    ran = fleetmark("sql", query, store=filled)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "no statement" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_store_that_lost_a_data_file_is_a_message(tmp_path: Path) -> None:
    store = tmp_path / "store"
    fleetmark("ingest", "sacct", str(SLURM), "--set", "tz=UTC", store=store)
    for path in (store / "data" / "main" / "job_attempt").rglob("*.parquet"):
        path.unlink()
    ran = fleetmark("tables", store=store)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "cannot be read: IO Error: Cannot open file" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"x" * 4096, "catalog.sqlite is damaged: bring it back from a copy"),
        (b"", "catalog.sqlite is not the catalog of a Fleetmark store"),
    ],
)
@pytest.mark.parametrize("arguments", [["tables"], ["build"]])
def test_a_catalog_that_is_none(
    content: bytes, message: str, arguments: list[str], tmp_path: Path
) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "catalog.sqlite").write_bytes(content)
    ran = fleetmark(*arguments, store=tmp_path / "store")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert message in ran.stderr
    assert (tmp_path / "store" / "catalog.sqlite").read_bytes() == content


def test_what_a_log_holds_does_not_drive_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "a\x1b[31m.txt"
    path.write_text(SLURM.read_text() + "9|\x1b]0;mine\x07\n")
    ran = fleetmark("ingest", "sacct", str(path), "--set", "tz=UTC", store=tmp_path / "store")
    assert "a\\x1b[31m.txt" in ran.stderr
    assert "\x1b" not in ran.stderr + ran.stdout
    shown = fleetmark("sql", "SELECT path, text FROM reject", store=tmp_path / "store")
    assert "\x1b" not in shown.stdout


def test_auto_names_what_it_does_not_know(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "jobs.txt").write_bytes(SLURM.read_bytes())
    (tmp_path / "logs" / "notes.txt").write_text("remember the milk\n")
    ran = fleetmark("ingest", "auto", str(tmp_path / "logs"), "--json", store=tmp_path / "store")
    states = {Path(r["path"]).name: (r["source"], r["state"]) for r in json.loads(ran.stdout)}
    assert states == {"jobs.txt": ("sacct", "read"), "notes.txt": ("auto", "ignored")}
    assert (ran.returncode, "no source knows this format" in ran.stderr) == (1, True)


def test_a_closed_pipe_is_no_error(filled: Path) -> None:
    with subprocess.Popen(
        [FLEETMARK, "sql", "SELECT range FROM range(200000)", "--store", str(filled)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert "Traceback" not in process.stderr.read()
