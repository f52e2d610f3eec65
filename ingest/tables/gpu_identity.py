"""gpu_identity: what a GPU is and how it is set up: versions, parts, modes, place."""

from __future__ import annotations

from fleetmark.table import Column, Table

_WHO = (
    Column("cluster", "VARCHAR", "cluster the node belongs to"),
    Column("gpu_uuid", "VARCHAR", "the GPU's UUID, with the prefix GPU-; under MIG the parent's"),
    Column("ts", "TIMESTAMP", "when this was read, UTC"),
    Column("node", "VARCHAR", "host name as the exporter gives it or as stated"),
    Column("gpu_index", "INTEGER", "the driver's index on that node; not an identity, changes on reboot"),
    Column("pci_bus_id", "VARCHAR", "PCI address as 00000000:bb:dd.f in lower case, as in gpu_event"),
    Column("gpu_model", "VARCHAR", "model name as the driver gives it"),
)  # fmt: skip
_VERSIONS = (
    Column("driver_version", "VARCHAR", "version of the kernel driver, the same for all GPUs of a node"),
    Column("cuda_version", "VARCHAR", "newest CUDA version that driver supports, not what a job uses"),
    Column("vbios_version", "VARCHAR", "version of the video BIOS"),
    Column("gsp_firmware_version", "VARCHAR", "version of the GPU system processor's firmware; NULL: GSP off or unknown"),
    Column("inforom_image_version", "VARCHAR", "version of the InfoROM image"),
    Column("inforom_oem_version", "VARCHAR", "version of the InfoROM's OEM object"),
    Column("inforom_ecc_version", "VARCHAR", "version of the InfoROM's ECC object"),
    Column("inforom_power_version", "VARCHAR", "version of the InfoROM's power object"),
)  # fmt: skip
_PARTS = (
    Column("serial", "VARCHAR", "serial number printed on the board"),
    Column("board_part_number", "VARCHAR", "part number of the board"),
    Column("gpu_part_number", "VARCHAR", "part number of the GPU"),
    Column("fru_part_number", "VARCHAR", "part number of the replaceable unit"),
    Column("minor_number", "INTEGER", "N of /dev/nvidiaN"),
    Column("module_id", "INTEGER", "place of the GPU in its node, fixed by the board"),
    Column("chassis_serial", "VARCHAR", "serial number of the chassis"),
    Column("slot_number", "INTEGER", "slot in that chassis, switches counted"),
    Column("tray_index", "INTEGER", "compute tray in that chassis, switches not counted"),
)
_SETTINGS = (
    Column("persistence_mode", "BOOLEAN", "true: the driver stays loaded between jobs"),
    Column("mig_mode", "BOOLEAN", "true: the GPU is split into instances"),
    Column("mig_mode_pending", "BOOLEAN", "mig_mode after the next reset"),
    Column("ecc_mode", "BOOLEAN", "true: memory errors are corrected and counted"),
    Column("ecc_mode_pending", "BOOLEAN", "ecc_mode after the next reboot"),
    Column("compute_mode", "VARCHAR", "who may use it: default, exclusive_process, prohibited"),
    Column("virtualization_mode", "VARCHAR", "none, pass_through, vgpu, host_vgpu, host_vsga"),
)
_HEALTH = (
    Column(
        "recovery_action",
        "VARCHAR",
        "what the driver asks for: none, gpu_reset, node_reboot, drain_p2p, drain_and_reset (as a "
        "code in gpu_sample.recovery_action); drivers of 2023 (schema v12) say only reset_required "
        "and drain_and_reset_recommended, which map to gpu_reset and drain_and_reset",
    ),
    Column("fabric_state", "VARCHAR", "registration with the NVLink fabric: not_started, in_progress, completed"),
    Column("fabric_status", "VARCHAR", "how that ended: success or the driver's error text"),
    Column("fabric_cluster_uuid", "VARCHAR", "fabric the GPU belongs to; NULL where the driver prints zeros"),
    Column("fabric_clique_id", "BIGINT", "partition of that fabric"),
    Column("fabric_health", "VARCHAR", "the driver's summary: healthy, unhealthy, limited_capacity"),
)  # fmt: skip

GPU_IDENTITY = Table(
    name="gpu_identity",
    doc=(
        "What a GPU is and how it is set up (versions, part numbers, modes, place), one row per GPU "
        "and reading, from nvidia-smi and, as far as their labels and fields go, from exporter "
        "pages. Every fact may be NULL: not printed, or not supported by the part. Counts (ECC "
        "errors, remapped rows, spare rows, retired pages) are columns of gpu_sample."
    ),
    grain=("cluster", "gpu_uuid", "ts"),
    time="ts",
    period="day",
    sort=("node", "gpu_index", "gpu_uuid", "ts"),
    columns=(*_WHO, *_VERSIONS, *_PARTS, *_SETTINGS, *_HEALTH),
)
