"""Health readings that a default exporter leaves out: links, memory errors, last XID.

Healthy levels: PCIe retries in single digits (9 on a healthy H100, utkuozdemir/nvidia_gpu_exporter@
e656cd8 capture), A100 links x16 at generation 4, twelve NVLinks; the rest 0. A value of NOT_PRINTED
has no line: without an error exporters print no XID at all (samples/telemetry/*.prom).
"""

from __future__ import annotations

import numpy as np

from .sensors import Values

NOT_PRINTED = -1

# field, reading, type, help (NVIDIA/dcgm-exporter@d5e5f51:etc/default-counters.csv)
HEALTH_FIELDS = (
    ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "pcie_replay", "counter", "Total number of PCIe retries."),
    ("DCGM_FI_DEV_PCIE_LINK_WIDTH", "pcie_width", "gauge", "PCIe link width."),
    ("DCGM_FI_DEV_PCIE_LINK_GEN", "pcie_gen", "gauge", "PCIe link generation."),
    ("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "ecc_sbe", "counter",
     "Total number of single-bit volatile ECC errors."),
    ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "ecc_dbe", "counter",
     "Total number of double-bit volatile ECC errors."),
    ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "remapped_rows", "counter",
     "Number of remapped rows for uncorrectable errors"),
    ("DCGM_FI_DEV_ROW_REMAP_PENDING", "remap_pending", "gauge", "Whether remapping is pending."),
    ("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "nvlink_crc", "counter",
     "Total number of NVLink flow-control CRC errors."),
    ("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "nvlink_replay", "counter",
     "Total number of NVLink retries."),
    ("DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "nvlink_recovery", "counter",
     "Total number of NVLink recovery errors."),
    ("DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS", "sw_thermal_ns", "counter",
     "Time slowed by the driver for heat (in ns)."),
    ("DCGM_FI_DEV_XID_ERRORS", "xid", "gauge", "Value of the last XID error encountered."),
)  # fmt: skip
COUNTERS = ("pcie_replay", "ecc_sbe", "ecc_dbe", "nvlink_crc", "nvlink_replay", "nvlink_recovery",
            "sw_thermal_ns", "energy_mj")  # fmt: skip


def healthy(random: np.random.Generator, shape: tuple[int, ...]) -> Values:
    """Health readings of a fleet without a fault."""
    levels = {name: 0 for _, name, _, _ in HEALTH_FIELDS}
    levels |= {"pcie_width": 16, "pcie_gen": 4, "xid": NOT_PRINTED}
    values: Values = {name: np.full(shape, level, np.int64) for name, level in levels.items()}
    values["pcie_replay"] += random.integers(0, 10, shape[1])
    return values
