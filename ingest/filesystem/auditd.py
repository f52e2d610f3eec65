"""Linux audit log: files opened, removed, renamed."""

from __future__ import annotations

import posixpath

import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Option, Parsed, rejects, source

from .._json_records import fitting
from .._typed_text import address, epoch, unless
from ..tables.storage_access import STORAGE_ACCESS
from ..tables.storage_event import STORAGE_EVENT

_HEAD = r"^(?:node=(?P<node>\S+) )?type=(?P<type>[A-Z_0-9]+) msg=audit\((?P<time>[0-9]+\.[0-9]+):(?P<serial>[0-9]+)\):(?P<rest>.*)$"
# Numbers of system calls on x86-64 (c000003e) and arm64 (c00000b7), from the kernel's tables.
_CALLS = {
    "c000003e": {
        "2": "open", "257": "openat", "437": "openat2", "85": "creat", "87": "unlink", "263": "unlinkat",
        "82": "rename", "264": "renameat", "316": "renameat2", "76": "truncate", "86": "link", "265": "linkat",
    },
    "c00000b7": {"56": "openat", "437": "openat2", "35": "unlinkat", "38": "renameat", "276": "renameat2", "45": "truncate", "37": "linkat"},
}  # fmt: skip
_FLAGS_IN = {"open": "a1", "openat": "a2"}
_CLASSES = {
    "creat": "write", "truncate": "write", "rename": "write", "renameat": "write", "renameat2": "write",
    "link": "write", "linkat": "write", "unlink": "delete", "unlinkat": "delete",
}  # fmt: skip
_WRITES_ONLY, _CREATES = 1, 0o100
_EXIT_NAMES = {"-13": "EACCES", "-1": "EPERM", "-2": "ENOENT"}
_UNSET = "4294967295"
_SETTINGS = ("CONFIG_CHANGE", "DAEMON_END", "DAEMON_START", "DAEMON_ABORT", "DAEMON_CONFIG")
_FIELD = r"""(?:^|[\s'\x1d]){name}=("[^"]*"|\S+)"""
_HELD = 64


# Blank lines, and what ausearch puts around each event.
_FRAMING = r"^\s*(?:----|time->.*|<no matches>)?\s*$"


def _looks_like(head: bytes, _file_name: str) -> bool:
    return b"msg=audit(" in head


@source(
    outputs=(STORAGE_ACCESS, STORAGE_EVENT),
    options=(Option("filesystem", "bucket that paths are put in", "posix"),),
    sniff=_looks_like,
)
def auditd(lines: pl.DataFrame, context: Context) -> Parsed:
    """Linux audit log (audit 2.x to 4.x, raw and enriched): records of one event (SYSCALL, CWD, PATH)
    put together by its number, for watches on weights (`-w /weights -p r`) and NFS mounts.

    One row per path that was opened, created, renamed or removed; folders around it are left out.
    Opens only: no bytes, no reads through a mapping, so `sent_bytes` is NULL. An open for reading is
    a read, one for writing alone or that creates a write. The principal is the login uid (`auid`),
    which sudo does not change, otherwise the uid. Relative paths are joined with the folder; `..` is
    resolved. Changes to the audit itself (rules, switched off, daemon ended) are rows of
    storage_event. Other types of records are skipped. Records of one event may stand apart by 64
    lines. Python per path, to join and resolve it: 90,000 a CPU
    second with all else.
    """
    blank = pl.col("text").str.contains(_FRAMING)
    cut = lines.filter(~blank).with_columns(
        pl.col("text").str.extract_groups(_HEAD).alias("cut")
    ).unnest("cut")  # fmt: skip
    strange = rejects(
        cut.filter(pl.col("serial").is_null()), "no audit record: type and msg=audit(time:number)"
    )
    known = cut.filter(pl.col("serial").is_not_null()).with_columns(
        pl.concat_str(pl.col("node").fill_null(""), pl.lit(":"), "time", pl.lit(":"), "serial").alias("event"),
        epoch(pl.col("time"), 1_000_000).alias("ts"),
    )  # fmt: skip
    held_from = _open_since(lines, known) if not context.at_end else None
    if held_from is not None:
        known = known.filter(pl.col("line_no") < held_from)
        strange = strange.filter(pl.col("line_no") < held_from)
        lines = lines.filter(pl.col("line_no") < held_from)
    accesses = _accesses(known, context)
    settings = known.filter(pl.col("type").is_in(_SETTINGS) & pl.col("ts").is_not_null())
    used = accesses["line_no"].n_unique() + settings.height
    return Parsed(
        {
            "storage_access": fitting(accesses, STORAGE_ACCESS),
            "storage_event": fitting(_events(settings, context), STORAGE_EVENT),
        },
        strange.select(*REJECTS_SCHEMA),
        lines.height - used - strange.height,
        held_from,
    )


def _open_since(lines: pl.DataFrame, known: pl.DataFrame) -> int | None:
    """First line of the events of which a record stands among the chunk's last lines."""
    recent = known.filter(pl.col("line_no") > pl.lit(lines["line_no"].max()) - _HELD)
    first = known.join(recent.select("event").unique(), on="event", how="semi")["line_no"].min()
    return first if isinstance(first, int) else None


def _field(name: str) -> pl.Expr:
    return pl.col("rest").str.extract(_FIELD.replace("{name}", name)).str.strip_chars('"')


def _accesses(known: pl.DataFrame, context: Context) -> pl.DataFrame:
    calls = known.filter((pl.col("type") == "SYSCALL") & pl.col("ts").is_not_null())
    calls = calls.unique("event", keep="first", maintain_order=True).select(
        "line_no", "event", "ts", "node", "serial",
        *(_field(n).alias(n) for n in ("arch", "syscall", "SYSCALL", "success", "exit", "a1", "a2", "auid", "uid", "AUID", "UID", "comm", "exe", "ses")),
    )  # fmt: skip
    folders = (
        known.filter(pl.col("type") == "CWD")
        .unique("event", keep="first")
        .select("event", _raw("cwd").alias("cwd"))
    )
    paths = known.filter(pl.col("type") == "PATH").select(
        "event", pl.col("line_no").alias("path_line"), _raw("name").alias("name"), _field("inode").alias("inode"),
        _field("dev").alias("dev"), _field("nametype").alias("nametype"),
    )  # fmt: skip
    paths = paths.filter(~pl.col("nametype").is_in(["PARENT", "UNKNOWN"]).fill_null(value=False))
    rows = calls.join(paths, on="event", how="inner", maintain_order="left_right")
    rows = rows.join(folders, on="event", how="left", maintain_order="left")
    numbered = pl.coalesce(
        pl.col("SYSCALL"),
        *(
            pl.when(pl.col("arch") == arch).then(
                pl.col("syscall").replace_strict(names, default=None, return_dtype=pl.String)
            )
            for arch, names in _CALLS.items()
        ),
    )
    rows = rows.with_columns(numbered.alias("operation"))
    files = [*_FLAGS_IN, "openat2", *_CLASSES]
    return _typed(rows.filter(pl.col("operation").is_in(files)), context)


def _raw(name: str) -> pl.Expr:
    """A name as it is: in quotes, or as hex where it holds what quotes cannot."""
    value = pl.col("rest").str.extract(_FIELD.replace("{name}", name))
    is_quoted = value.str.starts_with('"')
    hexed = value.str.decode("hex", strict=False).cast(pl.String, strict=False)
    plain = unless(value, "(null)")
    return pl.when(is_quoted).then(value.str.strip_chars('"')).otherwise(pl.coalesce(hexed, plain))


def _typed(rows: pl.DataFrame, context: Context) -> pl.DataFrame:
    flags = pl.coalesce(
        *(pl.when(pl.col("operation") == call).then(arg) for call, arg in _FLAGS_IN.items())
    ).str.to_integer(base=16, strict=False)
    writes = ((flags & 3) == _WRITES_ONLY) | ((flags & _CREATES) != 0)
    who = pl.coalesce(unless(pl.col("auid"), _UNSET, "-1", "unset"), "uid")
    name = pl.coalesce(unless(pl.col("AUID"), "unset"), unless(pl.col("UID")))
    keys = [
        posixpath.normpath(posixpath.join(folder or "/", path or "")).lstrip("/")
        for folder, path in rows.select("cwd", "name").iter_rows()
    ]
    failed = pl.col("success") == "no"
    return rows.with_columns(
        pl.lit(context.options["cluster"]).alias("cluster"),
        pl.lit("auditd").alias("source"),
        pl.lit("posix").alias("store_kind"),
        pl.lit(context.options.get("filesystem", "posix")).alias("bucket"),
        pl.Series("object_key", keys, dtype=pl.String),
        pl.concat_str("dev", pl.lit(":"), "inode").alias("object_ref"),
        pl.lit("").alias("version_id"),
        pl.col("event").alias("request_id"),
        pl.coalesce(
            pl.when(writes.fill_null(value=False)).then(pl.lit("write")),
            pl.col("operation").replace_strict(_CLASSES, default=None, return_dtype=pl.String),
            pl.lit("read"),
        ).alias("op_class"),
        pl.lit(0, pl.Int16).alias("answer"),
        pl.when(failed).then(pl.col("exit").replace(_EXIT_NAMES)).alias("error"),
        pl.coalesce(name, pl.concat_str(pl.lit("uid:"), who)).alias("principal"),
        pl.lit("uid").alias("principal_type"),
        pl.concat_str(pl.lit("uid:"), "uid").alias("requester"),
        unless(pl.col("ses"), _UNSET).alias("session"),
        pl.coalesce("exe", "comm").alias("command"),
    )


def _events(settings: pl.DataFrame, context: Context) -> pl.DataFrame:
    is_off = (pl.col("type").is_in(["DAEMON_END", "DAEMON_ABORT"])) | (
        _field("audit_enabled") == "0"
    )
    return settings.with_columns(
        pl.lit(context.options["cluster"]).alias("cluster"),
        pl.lit("auditd").alias("source"),
        pl.col("event").alias("event_id"),
        pl.lit("auditd").alias("service"),
        pl.coalesce(pl.concat_str("type", pl.lit(":"), _field("op")), pl.col("type")).alias("action"),
        pl.when(is_off.fill_null(value=False)).then(pl.lit("log_stop")).otherwise(pl.lit("log_config")).alias("event_class"),
        pl.concat_str(pl.lit("uid:"), pl.coalesce(unless(_field("auid"), _UNSET), _field("uid"))).alias("principal"),
        pl.lit("uid").alias("principal_type"),
        address(_field("addr")).alias("ip"),
        pl.lit("audit").alias("target_kind"),
        pl.coalesce(_field("key"), pl.col("node")).alias("target"),
        pl.when(_field("res").is_in(["0", "failed"])).then(pl.lit("failed")).alias("error"),
    )  # fmt: skip
