"""What `[[inputs]]` and `[run]` of the settings may say, and what is wrong with what they say.

Values are checked one by one, so that a file with three mistakes names three.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import msgspec

from fleetmark.catalog import Catalog
from fleetmark.secret import Secret
from fleetmark.source import Source

FLUSH_S = 5.0


class Input(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something to read from. `interval_s` is the pause between two looks."""

    kind: ClassVar[str] = ""
    needs_source: ClassVar[bool] = True
    name: str
    source: str = ""
    options: dict[str, str] = {}
    interval_s: float = FLUSH_S

    def problems(self) -> Iterator[str]:
        """What is wrong beyond the types of the values."""
        if not 0.1 <= self.interval_s <= 86400:
            yield f"interval_s is {self.interval_s}: it must lie between 0.1 and 86400"


class Files(Input, frozen=True, kw_only=True):
    """Files that grow, rotate or appear: paths, folders or patterns such as /var/log/nginx/access.log*."""

    kind: ClassVar[str] = "files"
    paths: list[str]

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if not self.paths:
            yield "paths is empty: name files, folders or patterns"


class Kafka(Input, frozen=True, kw_only=True):
    """Topics of a Kafka cluster. Messages hold one record, lines, or a JSON array of records.

    `schema_file` (Avro .avsc) makes the messages Avro: plain, or framed with a registry's five bytes.
    """

    kind: ClassVar[str] = "kafka"
    brokers: list[str]
    topics: list[str]
    group: str = "fleetmark"
    batch_bytes: int = 16 << 20
    schema_file: str = ""
    protobuf_message: str = ""
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str = ""
    username: str = ""
    password: Secret | None = None
    ca_file: str = ""

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if not self.brokers or not all(":" in b for b in self.brokers):
            yield f"brokers is {self.brokers}: write HOST:PORT"
        if not self.topics:
            yield "topics is empty"
        if self.security_protocol not in _PROTOCOLS:
            yield f"security_protocol {self.security_protocol!r}: there are {', '.join(_PROTOCOLS)}"
        if self.security_protocol.startswith("SASL") and not (self.username and self.password):
            yield "SASL needs username and password"
        if self.schema_file and not Path(self.schema_file).is_file():
            yield f"schema_file {self.schema_file}: no such file"
        if self.protobuf_message and not self.schema_file:
            yield "protobuf_message needs schema_file (a FileDescriptorSet, `protoc -o`)"


_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class ObjectStore(Input, frozen=True, kw_only=True):
    """Objects under a prefix of an S3-compatible store: s3://BUCKET/PREFIX."""

    kind: ClassVar[str] = "object_store"
    url: str
    endpoint: str = ""
    region: str = ""
    access_key_id: Secret | None = None
    secret_access_key: Secret | None = None
    interval_s: float = 60.0

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if not self.url.startswith("s3://") or not urlsplit(self.url).netloc:
            yield f"url is {self.url!r}: write s3://BUCKET/PREFIX"
        if bool(self.access_key_id) != bool(self.secret_access_key):
            yield "access_key_id and secret_access_key go together"


class Prometheus(Input, frozen=True, kw_only=True):
    """Raw samples of a Prometheus, by remote read; from `backfill_h` hours ago at the first look."""

    kind: ClassVar[str] = "prometheus"
    needs_source: ClassVar[bool] = False
    url: str
    selector: str = ""
    backfill_h: float = 1.0
    token: Secret | None = None
    interval_s: float = 60.0

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if urlsplit(self.url).scheme not in ("http", "https"):
            yield f"url is {self.url!r}: write http://HOST:9090"


class Slurm(Input, frozen=True, kw_only=True):
    """Jobs, nodes and the queue of Slurm: from slurmrestd at `url`, or by its commands on this machine.

    The first look asks for the `backfill_h` hours before it, later ones go on where the last ended.
    """

    kind: ClassVar[str] = "slurm"
    needs_source: ClassVar[bool] = False
    url: str = ""
    user: str = ""
    token: Secret | None = None
    slurm_cluster: str = ""
    backfill_h: float = 24.0
    interval_s: float = 300.0

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if self.url and urlsplit(self.url).scheme not in ("http", "https"):
            yield f"url is {self.url!r}: write http://HOST:6820, or leave it out for Slurm's commands"
        if not self.url and (self.user or self.token):
            yield "user and token are for slurmrestd: url is missing"
        if self.url and self.slurm_cluster:
            yield "slurm_cluster is for Slurm's commands: slurmrestd at url is one cluster's"


class Kubernetes(Input, frozen=True, kw_only=True):
    """Pods, jobs, nodes, events and queues of the cluster that kubeconfig or the pod's account names."""

    kind: ClassVar[str] = "kubernetes"
    needs_source: ClassVar[bool] = False
    context: str = ""
    interval_s: float = 120.0


class Webhook(Input, frozen=True, kw_only=True):
    """Bodies that are POSTed to /hooks/NAME of the receiver."""

    kind: ClassVar[str] = "webhook"
    token: Secret | None = None
    max_body_bytes: int = 16 << 20


KINDS: dict[str, type[Input]] = {
    kind.kind: kind for kind in (Files, Kafka, ObjectStore, Prometheus, Slurm, Kubernetes, Webhook)
}


class Run(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[run]`: where the receiver listens, and how often the store is computed, tended and judged (0: never)."""

    listen: str = "127.0.0.1:9465"
    compute_interval_s: float = 10.0
    tend_interval_s: float = 3600.0
    contracts_interval_s: float = 3600.0
    retention_days: dict[str, int] = {}

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.listen.rpartition(":")
        return host.strip("[]"), int(port)


def run_of(values: Mapping[str, Any], catalog: Catalog, path: Path) -> tuple[Run, list[str]]:
    """`[run]` with its mistakes; what is wrong keeps its default."""
    fitting, wrong = _fitting(Run, values, f"{path}: [run]")
    run = Run(**fitting)
    if not run.listen.rpartition(":")[2].isdigit():
        wrong.append(f"{path}: [run] listen is {run.listen!r}: write 127.0.0.1:9465")
    wrong += [
        f"{path}: [run] retention_days: no table {name}"
        for name in run.retention_days
        if name not in catalog.tables
    ]
    return run, wrong


def inputs_of(
    entries: Sequence[Mapping[str, Any]], catalog: Catalog, path: Path
) -> tuple[list[Input], list[str]]:
    """The inputs that are right, and every mistake of the others."""
    found: list[Input] = []
    wrong: list[str] = []
    names: set[str] = set()
    for number, entry in enumerate(entries, 1):
        where = f"{path}: [[inputs]] {entry.get('name') or f'number {number}'}"
        one, mistakes = _input(entry, catalog, where)
        if one is not None and one.name in names:
            mistakes.append(f"{where}: the name is taken by another input")
        wrong += mistakes
        if one is not None and not mistakes:
            names.add(one.name)
            found.append(one)
    return found, wrong


def _input(
    entry: Mapping[str, Any], catalog: Catalog, where: str
) -> tuple[Input | None, list[str]]:
    kind = KINDS.get(str(entry.get("kind", "")))
    if kind is None:
        return None, [f"{where}: kind is {entry.get('kind')!r}: there are {', '.join(KINDS)}"]
    values = {key: value for key, value in entry.items() if key != "kind"}
    fitting, wrong = _fitting(kind, values, where)
    if wrong:
        return None, wrong
    one = kind(**fitting)
    if not one.name.replace("-", "").replace("_", "").isalnum():
        wrong.append(f"{where}: name {one.name!r} may hold letters, digits, - and _")
    wrong += [f"{where}: {problem}" for problem in (*one.problems(), *_of_source(one, catalog))]
    return one, wrong


def _fitting(
    kind: type[msgspec.Struct], values: Mapping[str, Any], where: str
) -> tuple[dict[str, Any], list[str]]:
    """The values that fit the fields of `kind`, and what is wrong with the others."""
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    wrong = [
        f"{where}: unknown setting {name}; there are {', '.join(sorted(fields))}"
        for name in values
        if name not in fields
    ]
    wrong += [
        f"{where}: {name} is missing"
        for name, f in fields.items()
        if f.required and name not in values
    ]
    fitting = {}
    for name, value in values.items():
        if name in fields:
            try:
                fitting[name] = msgspec.convert(value, fields[name].type)
            except msgspec.ValidationError as error:
                wrong.append(f"{where}: {name}: {error}")
    return fitting, wrong


def _of_source(one: Input, catalog: Catalog) -> Iterator[str]:
    """Is the source there, of a kind that fits, with these options?"""
    if not one.needs_source:
        return
    if one.source == "auto" and not isinstance(one, Kafka):
        return
    source: Source | None = catalog.sources.get(one.source)
    if source is None:
        yield f"source is {one.source!r}: `fleetmark sources` lists them"
        return
    if source.reads == "frame" and isinstance(one, Kafka | Webhook):
        yield f"source {source.name} reads Parquet files, not messages"
    known = {option.name for option in source.options}
    for name in one.options:
        if name not in known:
            yield f"options: {source.name} has no {name}; it has {', '.join(sorted(known))}"
