"""Hugging Face Hub organisation audit log."""

from __future__ import annotations

import polars as pl

from fleetmark.pipeline.files import split_lines
from fleetmark.source import Context, Parsed, source

from .._json_records import (
    Form,
    Records,
    bounded_detail,
    fitting,
    read_document,
    read_records,
    scrubbed,
    timed,
)
from .._typed_text import address, epoch, instant, line_id, unless
from ..tables.storage_event import STORAGE_EVENT

_FORM = Form(
    marker=("$.type", "$.event", "$.action"),
    envelopes=("$.items", "$.events", "$.logs", "$.auditLogs", "$.data"),
    fields={
        "id": "$._id", "other_id": "$.id", "kind": "$.type", "event": "$.event", "act": "$.action",
        "actor_name": "$.actor.name", "actor_user": "$.actor.user", "actor_login": "$.actor.username",
        "author": "$.author.name", "user": "$.user.name", "plain_user": "$.user", "plain_actor": "$.actor",
        "actor_kind": "$.actor.type",
        "created": "$.createdAt", "time": "$.time", "date": "$.date", "stamp": "$.timestamp",
        "description": "$.description", "message": "$.message",
        "ip": "$.ip", "location_ip": "$.location.ip", "address": "$.ipAddress",
        "location": "$.location.formatted", "plain_location": "$.location",
        "repo": "$.repo.name", "repo_name": "$.repoName", "plain_repo": "$.repo", "resource": "$.resource.name",
    },
)  # fmt: skip
_CLASSES = (
    (r"(?i)visibility|public|gated|gating", "public_access"),
    (r"(?i)token", "key_created"),
    (r"(?i)sso|login|join_automatically", "login"),
    (r"(?i)invite|member|role|leave|join|resource.?group|collaborator", "membership"),
    (r"(?i)repo|model|dataset|space|branch|tag|lfs|secret|variable|webhook|transfer", "repository"),
    (r"(?i)download|export|audit", "export"),
)


def _looks_like(head: bytes, file_name: str) -> bool:
    return "audit" in file_name.lower() and b'"actor"' in head and b"protoPayload" not in head


@source(outputs=(STORAGE_EVENT,), reads="document", sniff=_looks_like)
def huggingface_audit(content: bytes, context: Context) -> Parsed:
    """Hugging Face Hub organisation audit log, the JSON file that its settings page exports, or an
    event a line.

    The page "Audit Logs" lists actor, type, description, location with an anonymised address, and
    time, but no names of members; the usual spellings of each are taken. Tracked are members,
    tokens, repositories and settings; **no downloads**: who pulled weights is not in this log.
    """
    records = read_document(content, _FORM)
    if records is None:
        lines, damaged = split_lines(content, 1)
        found = read_records(lines, context, _FORM)
        records = Records(found.rows, pl.concat([damaged, found.rejects]), found.skipped, None)
    written = pl.coalesce("created", "time", "date", "stamp")
    action = pl.coalesce("kind", "event", "act")
    is_text = ~pl.col("plain_actor").str.starts_with("{")
    who = pl.coalesce("actor_user", "actor_login", "actor_name", "author", "user", pl.when(is_text).then("plain_actor"),
        pl.when(~pl.col("plain_user").str.starts_with("{")).then("plain_user"))  # fmt: skip
    repo = pl.coalesce("repo", "repo_name", "resource", pl.when(~pl.col("plain_repo").str.starts_with("{")).then("plain_repo"))  # fmt: skip
    typed = records.rows.with_columns(
        written.alias("written"),
        pl.coalesce(instant(written), epoch(written, 1_000)).alias("ts"),
        pl.lit(context.options["cluster"]).alias("cluster"),
        pl.lit("huggingface_audit").alias("source"),
        pl.lit("huggingface").alias("service"),
        pl.coalesce("id", "other_id", line_id(pl.col("text"))).alias("event_id"),
        action.alias("action"),
        pl.coalesce(
            *(pl.when(action.str.contains(p)).then(pl.lit(c)) for p, c in _CLASSES), pl.lit("other")
        ).alias("event_class"),
        who.alias("principal"),
        pl.when(who.is_not_null()).then(pl.lit("user")).alias("principal_type"),
        address(pl.coalesce("ip", "location_ip", "address")).alias("ip"),
        unless(repo).alias("target"),
        unless(repo).alias("bucket"),
        pl.when(repo.is_not_null()).then(pl.lit("repository")).alias("target_kind"),
        bounded_detail(pl.col("text")).alias("detail"),
    )
    good, late = timed(typed, "written")
    return Parsed(
        {"storage_event": fitting(good, STORAGE_EVENT)},
        scrubbed(pl.concat([records.rejects, late])),
        records.skipped,
    )
