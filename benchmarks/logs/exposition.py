"""Exposition pages of dcgm-exporter: text file to typed, wide Parquet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path

import polars as pl

from fleetmark.catalog import Catalog, load_catalog
from fleetmark.pipeline.files import split_lines
from fleetmark.pipeline.lines import CHUNK_BYTES
from fleetmark.pipeline.write import gate
from fleetmark.source import Context
from fleetmark.store import Store
from fleetmark.table import Table

from ..lake import ingest_new
from ..workload import Goal, Workload

PAGES = 10_417
HOSTS = 64
GPUS = 8
FIELDS = 60
_START = 1_774_009_423
_STEP_S = 15
_MARKER = "# fleetmark scrape"
# Fields of the default counters and the profiling set, with a value the exporter might print.
_FIELDS = {
    "DCGM_FI_DEV_SM_CLOCK": "1980", "DCGM_FI_DEV_MEM_CLOCK": "2619",
    "DCGM_FI_DEV_MEMORY_TEMP": "54", "DCGM_FI_DEV_GPU_TEMP": "59",
    "DCGM_FI_DEV_POWER_USAGE": "631.950000", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": "15152422938",
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": "0", "DCGM_FI_DEV_GPU_UTIL": "91",
    "DCGM_FI_DEV_MEM_COPY_UTIL": "73", "DCGM_FI_DEV_ENC_UTIL": "0", "DCGM_FI_DEV_DEC_UTIL": "0",
    "DCGM_FI_DEV_XID_ERRORS": "0", "DCGM_FI_DEV_FB_FREE": "9791", "DCGM_FI_DEV_FB_USED": "5120",
    "DCGM_FI_DEV_FB_RESERVED": "447", "DCGM_FI_DEV_FB_TOTAL": "81559",
    "DCGM_FI_DEV_POWER_VIOLATION": "123456789", "DCGM_FI_DEV_THERMAL_VIOLATION": "0",
    "DCGM_FI_DEV_SYNC_BOOST_VIOLATION": "0", "DCGM_FI_DEV_BOARD_LIMIT_VIOLATION": "0",
    "DCGM_FI_DEV_LOW_UTIL_VIOLATION": "0", "DCGM_FI_DEV_RELIABILITY_VIOLATION": "0",
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": "0", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": "0",
    "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL": "2", "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL": "0",
    "DCGM_FI_DEV_RETIRED_SBE": "0", "DCGM_FI_DEV_RETIRED_DBE": "0",
    "DCGM_FI_DEV_RETIRED_PENDING": "0", "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": "0",
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": "0", "DCGM_FI_DEV_ROW_REMAP_FAILURE": "0",
    "DCGM_FI_DEV_ROW_REMAP_PENDING": "0", "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL": "0",
    "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL": "0",
    "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL": "0",
    "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL": "0",
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": "52011", "DCGM_FI_DEV_VGPU_LICENSE_STATUS": "0",
    "DCGM_FI_DEV_PSTATE": "0", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": "4",
    "DCGM_FI_DEV_ENFORCED_POWER_LIMIT": "700.000000", "DCGM_FI_DEV_PCIE_LINK_GEN": "5",
    "DCGM_FI_DEV_PCIE_LINK_WIDTH": "16", "DCGM_FI_PROF_GR_ENGINE_ACTIVE": "0.956205",
    "DCGM_FI_PROF_SM_ACTIVE": "0.812345", "DCGM_FI_PROF_SM_OCCUPANCY": "0.251234",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": "0.405822", "DCGM_FI_PROF_DRAM_ACTIVE": "0.392781",
    "DCGM_FI_PROF_PIPE_FP64_ACTIVE": "0.000000", "DCGM_FI_PROF_PIPE_FP32_ACTIVE": "0.081234",
    "DCGM_FI_PROF_PIPE_FP16_ACTIVE": "0.012345", "DCGM_FI_PROF_PIPE_INT_ACTIVE": "0.031234",
    "DCGM_FI_PROF_PCIE_TX_BYTES": "4791810", "DCGM_FI_PROF_PCIE_RX_BYTES": "6935930",
    "DCGM_FI_PROF_NVLINK_TX_BYTES": "21791810123", "DCGM_FI_PROF_NVLINK_RX_BYTES": "21791810123",
    "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS": "987654321",
    "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS": "0",
    "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS": "0",
}  # fmt: skip
METRICS = tuple(_FIELDS)


def page(number: int, pod: int, fields: Sequence[str] = METRICS) -> str:
    """One page: HELP, TYPE and a sample per GPU for each of the fields; 10 labels a sample.

    The last digit of every second value moves with the page, as readings do.
    """
    scrape, host = divmod(number, HOSTS)
    labels = [
        f'{{gpu="{gpu}",UUID="GPU-6d5c0ac5-74d7-3130-{host:04x}-e93ed57f46{gpu:02x}",'
        f'pci_bus_id="00000000:{gpu:02X}:00.0",device="nvidia{gpu}",'
        f'modelName="NVIDIA H100 80GB HBM3",Hostname="gpu-node-{host:04}",'
        f'DCGM_FI_DRIVER_VERSION="590.48.01",container="trainer",namespace="research",'
        f'pod="pretrain-{pod:06}-worker-{host:04}"}} '
        for gpu in range(GPUS)
    ]
    lines = [f"{_MARKER} ts={_START + scrape * _STEP_S}"]
    for index, name in enumerate(fields):
        value = _FIELDS[name]
        lines.append(f"# HELP {name} Value of the field {name} of this GPU.\n# TYPE {name} gauge")
        stem = value[:-1] if index % 2 and "." in value else ""
        lines += [
            f"{name}{text}{f'{stem}{(number + gpu) % 10}' if stem else value}"
            for gpu, text in enumerate(labels)
        ]
    return "\n".join(lines) + "\n"


def prepare(folder: Path, scale: float, *, churn: float) -> Path:
    """10,417 pages at scale 1 (5,000,160 samples); in a share `churn` of them a new pod name."""
    path = folder / f"pages-{churn:g}.prom"
    every = round(1 / churn) if churn else 0
    with path.open("w", encoding="utf-8", newline="\n") as out:
        for number in range(max(1, round(PAGES * scale))):
            out.write(page(number, number if every and number % every == 0 else 0))
    return path


def _chunks(path: Path) -> Iterator[bytes]:
    """Whole pages, a chunk at a time: what the source holds back comes with the next chunk."""
    rest, buffer = b"", bytearray(CHUNK_BYTES)
    with path.open("rb") as file:
        while size := file.readinto(buffer):
            cut = buffer.rfind(_MARKER.encode(), 0, size)
            yield b"".join((rest, memoryview(buffer)[:cut]))
            rest = bytes(memoryview(buffer)[cut:size])
    yield rest


def _cell_count(table: Table, rows: pl.DataFrame) -> int:
    """Values of signals: everything that is not a key, a name or bookkeeping."""
    signals = [c.name for c in table.columns if c.unit]
    return rows.height * len(signals) - int(sum(rows.select(signals).null_count().row(0)))


def load(path: Path) -> tuple[Path, Catalog]:
    """The file, and the definitions: imported before the clock starts."""
    return path, load_catalog()


def to_parquet(given: tuple[Path, Catalog]) -> int:
    """Chunk by chunk as the ingest does it: split, parse, gate by the contract, write.

    Raises RuntimeError unless every sample became a value: all of them are good.
    """
    path, catalog = given
    source, table = catalog.sources["dcgm_exporter"], catalog.tables["gpu_sample"]
    context = Context(path.name, {"cluster": "bench"})
    line_count = samples = 0
    for number, chunk in enumerate(filter(None, _chunks(path))):
        lines, _ = split_lines(chunk, line_count + 1)
        parsed = source.parse(lines, context)  # type: ignore[arg-type]  # reads == "lines"
        fit = gate(table, parsed.tables["gpu_sample"].lazy().collect(), "bench", lines)
        line_count += lines.height
        values = _cell_count(table, fit.rows)
        if values != lines.height - parsed.skipped:
            raise RuntimeError(f"{values} values of {lines.height - parsed.skipped} samples")
        samples += values
        part = path.with_name(f"{path.stem}-{number}.parquet")
        fit.rows.write_parquet(part, compression="zstd", compression_level=3)
    return samples


def into_lake(path: Path) -> int:
    """`fleetmark ingest dcgm_exporter` into a new lake: samples, with the command's start.

    Raises RuntimeError unless every sample is in a row of the lake. Identities of the GPUs, which each page states, repeat.
    """
    report = ingest_new("dcgm_exporter", path)
    samples = int(report["line_count"] - report["skipped_count"])
    with Store(path.with_name("lake"), read_only=True) as store:
        found = store.connection.execute("SELECT count(*) FROM lake.gpu_sample").fetchone()
    if report["reject_count"] or found != (samples // FIELDS,):
        raise RuntimeError(f"{found} rows of {samples} samples: {report}")
    return samples


def prepare_few(folder: Path, scale: float) -> Path:
    """A hundredth of the pages, for a peer that is slow; rates are compared."""
    fewer = folder / "few"
    fewer.mkdir(exist_ok=True)
    return prepare(fewer, scale / 100, churn=0)


def read_families(path: Path) -> int:
    """prometheus_client's parser, page by page: samples."""
    parse = import_module("prometheus_client.parser").text_string_to_metric_families
    pages = path.read_text(encoding="utf-8").split(_MARKER)[1:]
    return sum(len(family.samples) for page in pages for family in parse(page.partition("\n")[2]))


PARSER = Workload(
    name="exposition_client",
    doc="prometheus_client's parser on a hundredth of the pages, into its own objects",
    unit="samples",
    prepare=prepare_few,
    run=read_families,
    peer="prometheus_client",
)
STABLE = Workload(
    name="exposition",
    doc="dcgm-exporter pages (8 GPUs x 60 fields, 10 labels, 64 hosts, labels stable), text file "
    "to wide Parquet with every column of gpu_sample typed and gated",
    unit="samples",
    prepare=partial(prepare, churn=0),
    load=load,
    run=to_parquet,
    goals=(Goal("x REF", 3.0, 5.0), Goal("x prometheus_client", 40, beside=PARSER.name)),
    peak_limit_bytes=1 << 30,
)
CHURN = Workload(
    name="exposition_churn",
    doc="the same with a new pod name in every tenth page",
    unit="samples",
    prepare=partial(prepare, churn=0.1),
    load=load,
    run=to_parquet,
    goals=(Goal("x REF", 3.0, 5.0),),
    peak_limit_bytes=1 << 30,
)
INTO_LAKE = Workload(
    name="exposition_ingest",
    doc="the pages with stable labels through `fleetmark ingest` into a new lake: parsed, gated, checked "
    "for repeats, committed chunk by chunk; the command's start included",
    unit="samples",
    prepare=partial(prepare, churn=0),
    run=into_lake,
    goals=(Goal("x REF", aim=3.0),),
    peak_limit_bytes=1 << 30,
)
