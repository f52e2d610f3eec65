"""What a role sees of the tables, and a team of their rows.

Tables. Those that storage sources write (`ingest/storage/`), every model that reads one of them, however
indirectly, and every model beside them (`models/storage/`) are for `security` and `admin`; so are findings
and detector states of the domain `security`, the outbox of alerts, and what `reject`, `ingest_file`,
`stream_position` and the results of contracts hold of storage sources and their tables.
Everything else is for every role. Nobody has to remember to mark a new table.

Rows. A team has clusters, accounts or both. A table is narrowed by its columns `cluster` and `account`;
without `account`, by the jobs that `job`, `job_attempt` and `gpu_allocation` give to these accounts. A table
that cannot be narrowed is not there for a team, but for `detector_status` and reference tables that ship with Fleetmark. Of
findings a team sees those that concern nothing but its clusters and its jobs.

A narrowed table is handed to the query worker as a copy of the rows allowed, its files closed: what is left
out is not there to be read, by whatever trick. Where a team has whole clusters and the files are kept by
cluster, only that cluster's files are handed over, and nothing is copied.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

from fleetmark.access.gate import Principal
from fleetmark.access.rules import Scope
from fleetmark.catalog import Catalog
from fleetmark.query.snapshot import Files, Owned, RowFilter, Snapshot
from fleetmark.source import Source
from fleetmark.table import Table, literal

_SUBJECT = "storage"
_OWNERS = ("job", "job_attempt", "gpu_allocation")
_OF_SOURCES = ("ingest_file", "reject", "stream_position")
_OF_TABLES = ("contract_profile", "contract_result")
_ALERTS = "alert_delivery"
_STATUS = "detector_status"
_CLUSTER_FOLDER = re.compile(r"/cluster=([^/]*)/")


class Visibility:
    """The rules above over one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        storage = [s for s in catalog.sources.values() if _subject(s) == _SUBJECT]
        self._storage_sources = tuple(s.name for s in storage)
        self.security = frozenset({_ALERTS, *_storage_tables(catalog, storage)})
        rules = catalog.detectors.items()
        self._security_rules = tuple(n for n, rule in rules if rule.card.domain == "security")
        self._for_all_teams = frozenset(
            {_STATUS, *(t.name for s in catalog.sources.values() if s.packaged for t in s.outputs)}
        )

    def narrowed(self, snapshot: Snapshot, principal: Principal) -> Snapshot:
        """The snapshot as `principal` may see it."""
        privileged = principal.privileged
        files: dict[str, Files] = {}
        rows: dict[str, RowFilter] = {}
        for name, table in snapshot.tables.items():
            if not privileged and name in self.security:
                continue
            seen = self._rows(table, snapshot, principal.scopes)
            if seen is None:
                continue
            files[name], narrow = seen
            if not privileged and (public := self._public(name)):
                narrow = RowFilter(f"({narrow.where}) AND {public}" if narrow else public,
                                   narrow.owned if narrow else ())  # fmt: skip
            if narrow is not None:
                rows[name] = narrow
        return replace(
            snapshot,
            tables={name: snapshot.tables[name] for name in files},
            files=files,
            rows=rows,
            scope=f"{privileged}:{principal.scopes}",
        )

    def _public(self, name: str) -> str:
        if name == "finding":
            return "domain <> 'security'"
        if name == _STATUS and self._security_rules:
            return f"detector NOT IN ({_list(self._security_rules)})"
        if name in _OF_SOURCES and self._storage_sources:
            return f"source NOT IN ({_list(self._storage_sources)})"
        if name in _OF_TABLES:
            return f"table_name NOT IN ({_list(sorted(self.security))})"
        return ""

    def _rows(
        self, table: Table, snapshot: Snapshot, scopes: tuple[Scope, ...] | None
    ) -> tuple[Files, RowFilter | None] | None:
        files = snapshot.files[table.name]
        if scopes is None or table.name in self._for_all_teams:
            return files, None
        conditions = [_condition(table, scope) for scope in scopes]
        narrowed = [condition for condition in conditions if condition is not None]
        if not narrowed:
            return None
        clusters = _whole_clusters(table, scopes)
        if clusters is not None:
            held = {data: _cluster_of(data, snapshot.root) for data, _ in files}
            kept = tuple(pair for pair in files if held[pair[0]] in {None, *clusters})
            if all(held[data] for data, _ in kept):
                return kept, None
            files = kept
        where = " OR ".join(f"({condition})" for condition in narrowed)
        return files, RowFilter(where, _owned(where, scopes, snapshot))


def _subject(source: Source) -> str:
    """The folder that a source stands in."""
    parts = getattr(source.parse, "__module__", "").split(".")
    return parts[-2] if len(parts) > 1 else ""


def _storage_tables(catalog: Catalog, sources: Iterable[Source]) -> set[str]:
    found = {table.name for source in sources for table in source.outputs}
    found |= {
        model.output.name
        for model in catalog.models.values()
        if model.path is not None and model.path.parent.name == _SUBJECT
    }
    for model in catalog.in_order():
        if found & set(model.inputs):
            found.add(model.output.name)
    return found


def _condition(table: Table, scope: Scope) -> str | None:
    """Which rows of `table` are the scope's; None when the table cannot tell."""
    types = {column.name: column.type for column in table.columns}
    parts = []
    if scope.cluster is not None:
        if types.get("cluster") == "VARCHAR":
            parts.append(f"cluster IN ({_list(scope.cluster)})")
        elif types.get("cluster") == "VARCHAR[]":
            parts.append(f"len(cluster) > 0 AND list_has_all([{_list(scope.cluster)}], cluster)")
        else:
            return None
    if scope.account is not None:
        if types.get("account") == "VARCHAR":
            parts.append(f"account IN ({_list(scope.account)})")
        elif types.get("cluster") == types.get("job_id") == "VARCHAR":
            parts.append("(cluster, job_id) IN (SELECT cluster, job_id FROM owned_job)")
        elif types.get("cluster") == types.get("job_id") == "VARCHAR[]":
            parts.append(
                "len(job_id) > 0 AND len(cluster) = 1 AND list_has_all("
                "coalesce((SELECT list(o.job_id) FROM owned_job o "
                "WHERE o.cluster = narrowed.cluster[1]), []), job_id)"
            )
        else:
            return None
    return " AND ".join(parts)


def _owned(where: str, scopes: tuple[Scope, ...], snapshot: Snapshot) -> tuple[Owned, ...]:
    if "owned_job" not in where:
        return ()
    owned = []
    for name in _OWNERS:
        if table := snapshot.tables.get(name):
            theirs = " OR ".join(f"({_condition(table, scope)})" for scope in scopes)
            owned.append(Owned(table, snapshot.files[name], theirs))
    return tuple(owned)


def _whole_clusters(table: Table, scopes: tuple[Scope, ...]) -> set[str] | None:
    """The clusters that the scopes have as a whole, if they have nothing else."""
    if "cluster" not in table.column_names or table.column("cluster").type != "VARCHAR":
        return None
    clusters: set[str] = set()
    for scope in scopes:
        if scope.account is not None or scope.cluster is None:
            return None
        clusters |= set(scope.cluster)
    return clusters


def _cluster_of(path: str, root: Path) -> str | None:
    """The cluster whose rows alone a file holds, by the folder that DuckLake put it in below `root`."""
    found = _CLUSTER_FOLDER.search(path.removeprefix(str(root)))
    return None if found is None else unquote(found[1])


def _list(values: Iterable[str]) -> str:
    return ", ".join(literal(value) for value in values)
