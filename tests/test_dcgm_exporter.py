"""Exposition pages to rows: renamed and reordered twins, no measurements, who, when, cut anywhere."""

from __future__ import annotations

import csv
import re
from importlib import import_module
from importlib.resources import files
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from fleetmark.catalog import load_catalog
from fleetmark.source import Context, Parsed

# By name: type checkers cannot follow the mapping of top-level folders into the package, and
# prometheus_client has no types for its parsers.
openmetrics: Any = import_module("prometheus_client.openmetrics.parser")
_signals: Any = import_module("fleetmark.ingest.telemetry._signals")
SIGNALS, REGISTRY = _signals.SIGNALS, _signals.REGISTRY
dcgm_exporter = load_catalog().sources["dcgm_exporter"]

SAMPLES = files("fleetmark.samples") / "telemetry"
L4 = (SAMPLES / "dcgm_exporter_l4_1774009423.prom").read_text(encoding="utf-8")
T4 = (SAMPLES / "dcgm_exporter_t4.prom").read_text(encoding="utf-8")
TS = "2026-03-20T12:23:43Z"


def lines_of(text: str, first: int = 1) -> pl.DataFrame:
    values = text.removesuffix("\n").split("\n")
    return pl.DataFrame(
        {"line_no": range(first, first + len(values)), "text": values},
        schema={"line_no": pl.Int64(), "text": pl.String()},
    )


def parse(text: str, **options: str) -> Parsed:
    return run(lines_of(text), at_end=True, **options)


def run(lines: pl.DataFrame, *, at_end: bool, **options: str) -> Parsed:
    return dcgm_exporter.parse(
        lines,  # type: ignore[arg-type]  # a source that reads lines
        Context("page.prom", {"cluster": "c"} | options, at_end=at_end),
    )


def table(parsed: Parsed, name: str = "gpu_sample") -> pl.DataFrame:
    return parsed.tables[name].lazy().collect()


def one(text: str, **options: str) -> dict[str, object]:
    rows = table(parse(text, ts=TS, node="n", **options)).to_dicts()
    assert len(rows) == 1, rows
    return rows[0]


# Machines under test are shared: no deadline per example.
QUICK = settings(deadline=None, max_examples=30)


def test_openmetrics_exemplars_and_seconds() -> None:
    page = (
        "# TYPE jobs counter\n# HELP jobs of all kinds\n"
        'jobs_total{a="b c"} 17.0 1774009423.5 # {trace="x"} 0.5 1774009423.25\n# EOF\n'
    )
    (family,) = openmetrics.text_string_to_metric_families(page)
    (theirs,) = family.samples
    (row,) = table(parse(page, node="n"), "gpu_sample_extra").to_dicts()
    assert (row["field"], row["value"], row["labels"]) == (theirs.name, theirs.value, '{"a":"b c"}')
    assert str(row["ts"]) == "2026-03-20 12:23:43.500000"
    assert float(theirs.timestamp) == 1774009423.5


# -- signals -----------------------------------------------------------------------------------


def test_default_counters_are_all_in_the_registry() -> None:
    text = (SAMPLES / "dcgm_exporter_default_counters.csv").read_text(encoding="utf-8")
    known = {name for signal in SIGNALS for name in signal.names}
    rows = csv.reader(line.lstrip("# ") for line in text.splitlines() if "DCGM_FI" in line)
    metrics = {row[0].strip() for row in rows if row[1].strip() in ("gauge", "counter")}
    # One link's bandwidth is no quantity of the GPU: it goes to gpu_link_sample.
    assert metrics - known == {"DCGM_FI_DEV_NVLINK_BANDWIDTH_L0"}
    assert metrics <= {name for signal in REGISTRY for name in signal.names}


def test_a_name_stands_for_one_signal() -> None:
    names = [spelling.key for signal in REGISTRY for spelling in signal.spellings]
    assert len(names) == len(set(names))
    assert len({signal.column for signal in REGISTRY}) == len(REGISTRY)


def test_every_alias_reaches_its_column_in_its_unit() -> None:
    """A page of one line per name, each of a GPU of its own: 1 in the exporter's unit."""
    aliases = [(signal, one) for signal in REGISTRY for one in signal.spellings]
    lines = []
    for number, (signal, one) in enumerate(aliases):
        labels = {"Hostname": "h", "gpu": "0", "UUID": f"GPU-{number}", **dict(one.labels)}
        if signal.entity == "link" and one.link is None:
            labels["nvlink"] = "0"
        text = ",".join(f'{key}="{value}"' for key, value in labels.items())
        lines.append(f"{one.name}{{{text}}} 1\n")
    parsed = parse("".join(lines), ts=TS)
    found = {
        (name, row["gpu_uuid"]): row
        for name in parsed.tables
        for row in table(parsed, name).to_dicts()
    }
    for number, (signal, one) in enumerate(aliases):
        row = found[signal.table, f"GPU-{number}"]
        want: object = one.factor if one.factor <= signal.max else None
        if signal.table == "gpu_sample_extra":
            assert (row["field"], row["value"], row["unit"]) == (signal.column, want, signal.unit)
            continue
        column = signal.column.removeprefix("link_") if signal.entity == "link" else signal.column
        if signal.column == "link_status":
            column, want = "state", "up"
        elif want is not None:
            want = round(one.factor, signal.decimals)
        assert row[column] == want, one.key
        assert signal.entity != "link" or row["link"] == (one.link or 0)


def test_busy_is_not_work() -> None:
    row = one(T4)
    assert row["gpu_busy_ratio"] == 0.91
    assert (row["gr_engine_active_ratio"], row["tensor_active_ratio"]) == (0.156205, 0.005822)
    assert (row["memory_temp_c"], row["quality"]) == (None, ["memory_temp_c:not_supported"])


def in_words_of(page: str, version: int) -> str:
    """The page under another version's names: every alias in turn, numbers in that alias's unit."""

    def renamed(match: re.Match[str]) -> str:
        signal = next((s for s in SIGNALS if match[1] in s.names), None)
        if signal is None:
            return match[0]
        dcgm = [name for name in signal.names if name.startswith("DCGM")]
        name = dcgm[min(version, len(dcgm) - 1)]
        value = float(match[3]) * signal.names[match[1]] / signal.names[name]
        return f"{name}{match[2]} {value!r}"

    return re.sub(r"^(\w+)(\{.*\}) (\S+)$", renamed, page, flags=re.MULTILINE)


@pytest.mark.parametrize("page", [L4, T4], ids=["L4", "T4"])
@pytest.mark.parametrize("version", [1, 2])
def test_renamed_fields_and_base_units_give_the_same_rows(page: str, version: int) -> None:
    twin = in_words_of(page, version)
    assert "_HERTZ{" in twin
    assert "BOARD_POWER_WATTS{" in twin
    assert_frame_equal(table(parse(twin, ts=TS)), table(parse(page, ts=TS)))


@pytest.mark.parametrize("old_and_new", [("Hostname", "hostname"), ("UUID", "uuid"),
                         ("UUID", "gpu_uuid"), ("modelName", "model_name")])  # fmt: skip
def test_label_spellings_give_the_same_rows(old_and_new: tuple[str, str]) -> None:
    old, new = old_and_new
    twin = T4.replace(f"{old}=", f"{new}=")
    assert twin != T4
    assert_frame_equal(table(parse(twin, ts=TS)), table(parse(T4, ts=TS)))


@QUICK
@given(st.randoms(use_true_random=False))
def test_order_of_labels_and_lines_and_comments_do_not_matter(random: object) -> None:
    shuffle = random.shuffle  # type: ignore[attr-defined]  # random.Random
    lines = [line for line in L4.splitlines() if not line.startswith("#")]
    shuffle(lines)

    def shuffled(match: re.Match[str]) -> str:
        labels = match[1].split(",")
        shuffle(labels)
        return "{" + ",".join(labels) + "}"

    twin = re.sub(r"\{(.*)\}", shuffled, "\n".join(lines))
    drop = "line_no"
    assert_frame_equal(table(parse(twin, ts=TS)).drop(drop), table(parse(L4, ts=TS)).drop(drop),
                       check_column_order=False)  # fmt: skip


LABELS = '{gpu="0",UUID="GPU-1",Hostname="h"}'


@pytest.mark.parametrize(
    ("name", "text", "column", "reason"),
    [
        ("DCGM_FI_DEV_GPU_TEMP", "2147483632", "gpu_temp_c", "blank"),
        ("DCGM_FI_DEV_GPU_TEMP", "2147483633", "gpu_temp_c", "not_found"),
        ("DCGM_FI_DEV_GPU_TEMP", "2147483634.000000", "gpu_temp_c", "not_supported"),
        ("DCGM_FI_DEV_FB_USED", "2147483635", "fb_used_bytes", "not_permitted"),
        ("DCGM_FI_DEV_XID_ERRORS", "9223372036854775792", "xid_code", "blank"),
        ("DCGM_FI_DEV_XID_ERRORS", "9223372036854775793", "xid_code", "not_found"),
        ("DCGM_FI_DEV_FB_FREE", "9223372036854775794", "fb_free_bytes", "not_supported"),
        ("DCGM_FI_PROF_SM_CYCLES_ACTIVE_TOTAL", "9223372036854775795", "sm_active_cycles",
         "not_permitted"),
        ("DCGM_FI_DEV_SM_CLOCK", "9.223372036854776e+18", "sm_clock_mhz", "sentinel"),
        ("DCGM_FI_DEV_POWER_USAGE", "140737488355328.000000", "power_w", "blank"),
        ("DCGM_FI_DEV_POWER_USAGE", "1.40737488355329e+14", "power_w", "not_found"),
        ("DCGM_FI_PROF_SM_ACTIVE", "140737488355330", "sm_active_ratio", "not_supported"),
        ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "140737488355331", "energy_j", "not_permitted"),
        ("DCGM_FI_DEV_GPU_UTIL", "101", "gpu_busy_ratio", "out_of_range"),
        ("DCGM_FI_DEV_GPU_UTIL", "4294967295", "gpu_busy_ratio", "out_of_range"),
        ("DCGM_FI_DEV_POWER_USAGE", "-1", "power_w", "out_of_range"),
        ("DCGM_FI_DEV_POWER_USAGE", "NaN", "power_w", "not_a_number"),
        ("DCGM_FI_DEV_POWER_USAGE", "+Inf", "power_w", "infinite"),
        ("DCGM_FI_DEV_MEMORY_TEMP", "0", "memory_temp_c", "not_supported"),
        ("DCGM_FI_DEV_GPU_TEMP", "<<<NOT_SUPPORTED>>>", "gpu_temp_c", "not_supported"),
    ],
)  # fmt: skip
def test_what_is_no_measurement_is_null_and_says_why(
    name: str, text: str, column: str, reason: str
) -> None:
    row = one(f"{name}{LABELS} {text}\nDCGM_FI_DEV_MEM_CLOCK{LABELS} 5000\n")
    assert row[column] is None
    assert row["memory_clock_mhz"] == 5000
    assert row["quality"] == [f"{column}:{reason}"]


def test_large_counters_are_no_sentinels() -> None:
    """A quantity that can be 2^31 - 16 or 2^47 is one: 2,147,483.632 J, and 2^47 ns are 1.6 days."""
    page = (
        f"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{LABELS} 2147483632\n"
        f"DCGM_FI_DEV_POWER_VIOLATION{LABELS} 140737488355328\n"
        f"DCGM_FI_DEV_NVLINK_COUNT_TX_BYTES{LABELS} 140737488355328\n"
    )
    row = one(page)
    assert row["energy_j"] == 2147483.632
    assert row["power_violation_s"] == 140737.488355
    assert row["nvlink_tx_bytes"] == 2**47
    assert row["quality"] == []


# -- who is measured ---------------------------------------------------------------------------


def test_whole_gpu_quantities_are_stored_once_under_mig() -> None:
    """Seven instances repeat the GPU's power; its sum over rows stays the GPU's."""
    gpu = 'gpu="0",UUID="GPU-1",Hostname="h",modelName="NVIDIA A100",GPU_I_PROFILE="1g.5gb"'
    page = "".join(
        f'DCGM_FI_DEV_POWER_USAGE{{{gpu},GPU_I_ID="{i}"}} 250.5\n'
        f'DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{gpu},GPU_I_ID="{i}"}} 0.{i}\n'
        for i in range(7, 14)
    )
    rows = table(parse(page, ts=TS)).sort("mig_instance")
    assert rows["power_w"].to_list() == [250.5, *[None] * 7]
    assert rows["power_w"].sum() == 250.5
    assert rows["mig_instance"].to_list() == ["", "10", "11", "12", "13", "7", "8", "9"]
    assert rows["gr_engine_active_ratio"].to_list() == [None, 0.10, 0.11, 0.12, 0.13, 0.7, 0.8, 0.9]
    assert rows["mig_profile"].to_list() == [None, *["1g.5gb"] * 7]
    assert rows["gpu_uuid"].unique().to_list() == ["GPU-1"]


def test_a_series_per_pod_is_one_cell_and_a_contradiction_is_noted() -> None:
    def line(pod: str, value: float) -> str:
        return f'DCGM_FI_DEV_POWER_USAGE{{gpu="0",UUID="GPU-1",Hostname="h",pod="{pod}"}} {value}\n'

    assert one(line("a", 300) + line("b", 300))["quality"] == []
    row = one(line("a", 300) + line("b", 310) + line("c", float("nan")))
    assert (row["power_w"], row["quality"]) == (300, ["power_w:conflict"])
    row = one(line("a", float("nan")) + line("b", 310))
    assert (row["power_w"], row["quality"]) == (310, [])


def test_links_switches_and_unknown_fields_go_to_the_narrow_table() -> None:
    link = 'DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL{nvlink="3",gpu_uuid="GPU-1",hostname="h"} 5\n'
    new = 'DCGM_FI_DEV_OF_TOMORROW{gpu="0",UUID="GPU-1",Hostname="h"} 7\n'
    switch = 'DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT{nvswitch="0",Hostname="h"} 40\n'
    parsed = parse(link + new + switch, ts=TS)
    rows = table(parsed, "gpu_sample_extra")
    assert table(parsed).is_empty()
    assert rows.select("field", "gpu_uuid", "value").rows() == [
        ("nvlink_bandwidth_bytes_per_s", "GPU-1", 5e6),
        ("DCGM_FI_DEV_OF_TOMORROW", "GPU-1", 7.0),
        ("switch_temp_c", None, 40.0),
    ]
    assert rows["unit"].to_list() == ["bytes/s", None, "c"]
    assert rows["labels"][0] == '{"gpu_uuid":"GPU-1","hostname":"h","nvlink":"3"}'


@pytest.mark.parametrize(
    ("text", "is_page"),
    [
        (L4, True),
        (f"# fleetmark scrape ts={TS}\n{T4}", True),
        ("\n# HELP DCGM_FI_DEV_GPU_TEMP temperature\n", True),
        ("DCGM_FI_DEV_GPU_TEMP 31\n", True),
        ((SAMPLES / "dcgm_exporter_default_counters.csv").read_text(encoding="utf-8"), False),
        (f"# How to scrape\n\nThe exporter prints pages like this one:\n\n{L4}", False),
        ("# HELP node_load1 load\nnode_load1 0.5\n", False),
    ],
)
def test_auto_takes_pages_not_what_is_written_about_them(text: str, *, is_page: bool) -> None:
    assert dcgm_exporter.sniff(text.encode(), "x") is is_page
