"""Settings: order of precedence, unknown keys, secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetmark.catalog import load_catalog
from fleetmark.errors import SettingsError
from fleetmark.model import Params
from fleetmark.pipeline.run import ingest
from fleetmark.pipeline.thresholds import check
from fleetmark.settings import DEFAULT_STORE, Webhook, load_settings
from fleetmark.store import Store
from fleetmark.testing import EPOCH


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_command_line_over_environment_over_file_over_default(tmp_path: Path) -> None:
    assert load_settings({}).store == DEFAULT_STORE
    (tmp_path / "fleetmark.toml").write_text('store = "from-file"\nmemory_mb = 512\n')
    assert load_settings({}).store == Path("from-file")
    assert load_settings({}).memory_mb == 512
    environment = {"FLEETMARK_STORE": "from-env", "FLEETMARK_MEMORY_MB": "1024"}
    assert load_settings(environment).store == Path("from-env")
    assert load_settings(environment).memory_mb == 1024
    assert load_settings(environment, store=Path("stated")).store == Path("stated")


def test_sections_and_webhooks(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("https://hooks.example/abc\n")
    (tmp_path / "fleetmark.toml").write_text(
        "[sources.sacct]\ntz = 'UTC'\n[params.step_straggler]\nmin_ratio = 1.2\n"
        "[[webhooks]]\nname = 'a'\nurl_file = 'secret'\n"
        "[[webhooks]]\nname = 'b'\nurl_env = 'HOOK'\nmin_severity = 'high'\n"
    )
    settings = load_settings({"HOOK": "http://127.0.0.1/x"})
    assert settings.sources == {"sacct": {"tz": "UTC"}}
    assert settings.params == {"step_straggler": {"min_ratio": 1.2}}
    assert settings.webhooks == (
        Webhook("a", "https://hooks.example/abc"),
        Webhook("b", "http://127.0.0.1/x", "high"),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stroe = 'x'", r"unknown setting stroe; there are auth, inputs, lake, memory_mb, params"),
        ("store = ", "is not TOML"),
        ("store = 5", "must name a folder"),
        ("webhooks = 'x'", r"write \[\[webhooks\]\]"),
        ("webhooks = ['x']", r"write \[\[webhooks\]\]"),
        ("[sources.sacct]\ncluster = 5", r"\[sources.sacct\] cluster: write its value in quotes"),
        ("memory_mb = 3", "at least 256"),
        ("[lake]\ncatalog = 'mysql:x'", r"\[lake\] catalog must begin with postgres:"),
        ("[lake]\ncatalog = 'postgres:password=x'", "catalog holds a password"),
        ("[lake]\ncatalog = 'postgres:dbname=x'", r"\[lake\] data is missing"),
        ("[lake]\ndata = 's3://x'", r"\[lake\] catalog is missing"),
        ("[lake]\npassword = 'x'", r"\[lake\] Expected `object"),
        ("[lake]\npassword = { env = 'ABSENT' }", r"\[lake\] password: .* ABSENT is not set"),
        ("sources = 1", r"\[sources.NAME\] must hold"),
        ("[[webhooks]]\nname = 'a'", "needs name and one of url"),
        ("[[webhooks]]\nname = 'a'\nurl = 'ftp://x'", "must begin with http"),
        (
            "[[webhooks]]\nname = 'a'\nurl = 'http://x'\nmin_severity = 'bad'",
            "unknown min_severity",
        ),
        ("[[webhooks]]\nname = 'a'\nurl = 'http://x'\ncolour = 'red'", "unknown colour"),
    ],
)
def test_mistakes_are_explained(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "fleetmark.toml").write_text(text)
    with pytest.raises(SettingsError, match=message):
        load_settings({})


def test_a_missing_secret_is_said_and_stops_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "fleetmark.toml").write_text(
        "[[webhooks]]\nname = 'a'\nurl_env = 'NOT_SET'\n"
        "[[webhooks]]\nname = 'b'\nurl_file = 'missing'\n"
        "[[webhooks]]\nname = 'c'\nurl_file = 'empty'\n"
    )
    assert [w.missing for w in load_settings({}).webhooks] == [
        "url_env: the environment variable NOT_SET is not set",
        "url_file missing: No such file or directory",
        "url_file empty: is empty",
    ]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"gpu_minuet": {}}, r"\[params.gpu_minuet\]: no such model or detector"),
        ({"gpu_minute": {"gap": 1}}, "gpu_minute has no parameter gap; it has max_gap_s"),
        ({"gpu_minute": {"max_gap_s": "1"}}, "'1': it must be a number"),
        ({"gpu_minute": {"max_gap_s": True}}, "True: it must be a number"),
        ({"gpu_minute": {"max_gap_s": float("nan")}}, "nan: it must be a number"),
        ({"gpu_minute": {"max_gap_s": -1}}, "-1: it must not be negative"),
        ({"weight_read": {"grace_after_s": 7200}}, "7200: it must be at most 3600"),
        ({"straggler_rank": {"high_lost": 1}}, "straggler_rank has no parameter high_lost"),
    ],
)
def test_parameters_that_do_not_fit(params: dict[str, Params], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        check(load_catalog(), params)


def test_every_default_fits() -> None:
    catalog = load_catalog()
    for model in (*catalog.models.values(), *(d.model for d in catalog.detectors.values())):
        check(catalog, {model.name: {n: p.default for n, p in model.params.items()}})


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ({"saact": {}}, r"\[sources.saact\]: no such source"),
        ({"sacct": {"tz": "Mars"}}, r"\[sources.sacct\] tz: 'Mars' is no time zone name"),
        ({"sacct": {"zone": "UTC"}}, r"\[sources.sacct\] has no option zone; it has cluster"),
    ],
)
def test_source_options_that_do_not_exist(
    sources: dict[str, dict[str, str]], message: str, fleet: Path, tmp_path: Path
) -> None:
    path = tmp_path / "x"
    path.write_text("x\n")
    with (
        Store(fleet, read_only=True, memory_mb=512) as store,
        pytest.raises(SettingsError, match=message),
    ):
        list(ingest(store, load_catalog(), "sacct", [path], {}, sources, EPOCH))


def test_a_named_file_must_exist() -> None:
    with pytest.raises(SettingsError, match="no such settings file"):
        load_settings({"FLEETMARK_CONFIG": "missing.toml"})
