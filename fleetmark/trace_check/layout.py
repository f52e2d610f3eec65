"""Where the files of each public trace lie in its download, and what their place says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

# trace -> (source, pattern of file names), as in the repositories named in docs/sources.md; all may be gzipped.
LAYOUTS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "openb": (
        ("openb_nodes", "openb_node_list_all_node*"),
        ("openb_pods", "openb_pod_list_default*"),
    ),
    "helios": (
        ("helios_vc", "*cluster_sequence_vc*"),
        ("helios_gpu_number", "*gpu_number.csv*"),
        ("helios_trace", "cluster_log.csv*"),
    ),
    "acme": (("acme_trace", "trace_seren.csv*"), ("acme_trace", "trace_kalos.csv*")),
    "philly": (("philly_trace", "cluster_job_log*"), ("philly_trace", "philly_job_record*.json")),
}


@dataclass(frozen=True, slots=True)
class TraceFile:
    """A file, its source and the facts its place states."""

    path: Path
    source: str
    options: Mapping[str, str]


def files_of(name: str, path: Path) -> list[TraceFile]:
    """The trace's files at or below `path`, each once."""
    found: dict[Path, TraceFile] = {}
    for source, pattern in LAYOUTS[name]:
        below = [path] if path.is_file() else sorted(path.rglob(pattern))
        for file in below:
            if file.match(pattern) and file not in found:
                found[file] = TraceFile(file, source, _facts(name, file))
    return list(found.values())


def _facts(name: str, file: Path) -> Mapping[str, str]:
    """Cluster and virtual cluster by the folders' names, where the file's own name lacks them.

    Helios: data/Earth/cluster_log.csv, Earth/cluster_gpu_number.csv, Earth_vcs/vc6YE/cluster_sequence_vc.csv.
    """
    if name != "helios":
        return {} if name == "acme" else {"cluster": name}
    if file.name.startswith("cluster_sequence_vc"):
        return {
            "vc": file.parent.name,
            "cluster": file.parent.parent.name.removesuffix("_vcs").lower(),
        }
    if file.name.startswith(("cluster_log", "cluster_gpu_number")):
        return {"cluster": file.parent.name.lower()}
    return {}
