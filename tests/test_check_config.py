"""`fleetmark check-config` names every mistake of the settings, with what is allowed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fleetmark.catalog import load_catalog
from fleetmark.live.check import hints, mistakes

GOOD = """
[[inputs]]
name = "access"
kind = "files"
source = "s3_access"
paths = ["/var/log/s3/*"]
options = { cluster = "a" }
[[inputs]]
name = "topics"
kind = "kafka"
source = "kernel_log"
brokers = ["k:9092"]
topics = ["kernel"]
"""
SCHEDULERS = """
[[inputs]]
name = "pods"
kind = "kubernetes"
context = "alpha"
[[inputs]]
name = "jobs"
kind = "slurm"
url = "http://slurmctl:6820"
"""


def found(text: str, folder: Path) -> list[str]:
    path = folder / "fleetmark.toml"
    path.write_text(text)
    return [line.replace(str(path), "FILE") for line in mistakes(load_catalog(), os.environ, path)]


def test_right_settings(tmp_path: Path) -> None:
    assert found(GOOD + SCHEDULERS, tmp_path) == []


def test_every_mistake_at_once(tmp_path: Path) -> None:
    text = """
[run]
listen = "nowhere"
compute_every = 3
retention_days = { gpu_sampel = 30 }
[[inputs]]
kind = "files"
paths = "/var/log"
intervall_s = 5
[[inputs]]
name = "access"
kind = "kafka"
source = "s3_acces"
brokers = ["kafka"]
topics = []
[[inputs]]
name = "x"
kind = "ftp"
[[inputs]]
name = "gpus"
kind = "prometheus"
url = "prometheus:9090"
token = { env = "NOT_SET_ANYWHERE" }
[params.step_stragler]
min_ratio = 1
[sources.sacct]
timezone = "UTC"
"""
    assert found(text, tmp_path) == [
        "FILE: [[inputs]] number 1: unknown setting intervall_s; there are interval_s, name, options, paths, source",
        "FILE: [[inputs]] number 1: name is missing",
        "FILE: [[inputs]] number 1: paths: Expected `array`, got `str`",
        "FILE: [[inputs]] access: brokers is ['kafka']: write HOST:PORT",
        "FILE: [[inputs]] access: topics is empty",
        "FILE: [[inputs]] access: source is 's3_acces': `fleetmark sources` lists them",
        "FILE: [[inputs]] x: kind is 'ftp': there are files, kafka, object_store, prometheus, slurm, kubernetes, webhook",
        "FILE: [[inputs]] gpus: url is 'prometheus:9090': write http://HOST:9090",
        "FILE: [run]: unknown setting compute_every; there are compute_interval_s, contracts_interval_s, listen, retention_days, tend_interval_s",
        "FILE: [run] listen is 'nowhere': write 127.0.0.1:9465",
        "FILE: [run] retention_days: no table gpu_sampel",
        *found("[sources.sacct]\ntimezone = 'UTC'", tmp_path),
        *found("[params.step_stragler]\nmin_ratio = 1", tmp_path),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        (GOOD + GOOD, "FILE: [[inputs]] access: the name is taken by another input"),
        (GOOD.replace("cluster =", "zone ="), "FILE: [[inputs]] access: options: s3_access has no zone; it has cluster"),
        (GOOD + 'security_protocol = "SASL_SSL"', "FILE: [[inputs]] topics: SASL needs username and password"),
        (GOOD + 'schema_file = "/no/such.avsc"', "FILE: [[inputs]] topics: schema_file /no/such.avsc: no such file"),
        (GOOD + 'username = "u"\npassword = { env = "NOT_SET_ANYWHERE" }',
         "FILE: [[inputs]] topics: password: the environment variable NOT_SET_ANYWHERE is not set"),
        (SCHEDULERS.replace("http:", "ssh:"),
         "FILE: [[inputs]] jobs: url is 'ssh://slurmctl:6820': write http://HOST:6820, or leave it out for Slurm's commands"),
        (SCHEDULERS + 'slurm_cluster = "a"',
         "FILE: [[inputs]] jobs: slurm_cluster is for Slurm's commands: slurmrestd at url is one cluster's"),
        (SCHEDULERS.replace("url", "user"), "FILE: [[inputs]] jobs: user and token are for slurmrestd: url is missing"),
        (SCHEDULERS + 'token = "secret"', "FILE: [[inputs]] jobs: token: Expected `object | null`, got `str`"),
        ("inputs = 3", "FILE: write [[inputs]], once for each"),
        ("[[inputs]", "FILE is not TOML: Expected ']]' at the end of an array declaration (at line 1, column 9)"),
    ],
)  # fmt: skip
def test_one_mistake(text: str, mistake: str, tmp_path: Path) -> None:
    assert found(text, tmp_path)[0] == mistake


def hinted(text: str, folder: Path) -> list[str]:
    path = folder / "fleetmark.toml"
    path.write_text(text)
    return [line.replace(str(path), "FILE") for line in hints(load_catalog(), os.environ, path)]


def tail_of(source: str, options: str = "{}") -> str:
    return f'[[inputs]]\nname = "x"\nkind = "files"\nsource = "{source}"\npaths = ["/x"]\noptions = {options}\n'


@pytest.mark.parametrize(
    "source",
    # Formats that print local time without a zone, by the manuals of Slurm, NVIDIA, NCCL and syslog.
    ["sacct", "squeue", "sinfo", "scontrol", "sacctmgr", "nvidia_smi", "nccl_debug", "kernel_log"],
)
def test_times_without_a_zone_need_one(source: str, tmp_path: Path) -> None:
    (hint,) = hinted(tail_of(source), tmp_path)
    assert hint == (
        f"FILE: [[inputs]] x: tz is not stated. {source}: times that carry no zone are not guessed; their lines are "
        "refused, or kept without a time. If these logs hold such times, write options = { tz = 'Europe/Berlin' } "
        f"there, or [sources.{source}] tz = 'Europe/Berlin'"
    )
    assert hinted(tail_of(source, "{ tz = 'UTC' }"), tmp_path) == []
    assert hinted(tail_of(source) + f"[sources.{source}]\ntz = 'UTC'", tmp_path) == []


def test_a_zone_is_asked_for_where_it_matters(tmp_path: Path) -> None:
    assert (
        hinted(tail_of("s3_access") + SCHEDULERS, tmp_path) == []
    )  # stamps with an offset; Slurm asked in UTC
    (hint,) = hinted(tail_of("auto"), tmp_path)
    assert "sacct" in hint
    assert "s3_access" not in hint


def test_the_environment_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETMARK_INPUTS_TOPICS_BROKERS", '["b"]')
    assert found(GOOD, tmp_path) == ["FILE: [[inputs]] topics: brokers is ['b']: write HOST:PORT"]
