"""Access logs of web servers in front of models and artefacts."""

from __future__ import annotations

import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Option, Parsed, rejects, source

from .._json_records import fitting, scrubbed
from .._redact import redact
from .._typed_text import address, byte_range, epoch, instant, line_id, unless, whole
from ..tables.storage_access import STORAGE_ACCESS
from ._http_format import KNOWN, FormatError, patterns
from ._object_path import unquoted

# Path (without query) -> bucket, key, version. The first that fits decides.
_ROUTES = (
    # Hugging Face Hub and its mirrors: resolve and raw files, LFS and Xet storage stay paths.
    r"^/(?:api/)?(?P<bucket>(?:(?:models|datasets|spaces)/)?[^/]+/[^/]+)/(?:resolve|raw)/(?P<version>[^/]+)/(?P<key>.+)$",
    # MLflow: proxied artefacts (experiment/run/artifacts/path), their upload and list routes.
    r"^(?:/[^/]+)?/(?:ajax-)?api/2\.0/(?P<bucket>mlflow-artifacts)/(?:mpu/[a-z]+/)?artifacts/?(?P<key>.*)$",
    # OCI registries: blobs and manifests of a repository.
    r"^/v2/(?P<bucket>.+)/(?P<key>(?:blobs|manifests)/[^/]+)$",
    # Git LFS as forges serve it.
    r"^/(?P<bucket>.+?)(?:\.git)?/(?:info/lfs/objects|gitlab-lfs/objects)/(?P<key>[0-9a-f]{64}.*)$",
    # JFrog Artifactory and Sonatype Nexus repositories.
    r"^/(?:artifactory|repository)/(?P<bucket>[^/]+)/(?P<key>.+)$",
)
_MLFLOW_QUERY = r"/(?:get-artifact|model-versions/get-artifact)$"
_METHODS = {
    "GET": "read", "HEAD": "head", "PUT": "write", "POST": "write", "PATCH": "write", "DELETE": "delete",
    "PROPFIND": "list", "COPY": "write", "MOVE": "write",
}  # fmt: skip
_CLOCK = "%d/%b/%Y:%H:%M:%S %z"


def _looks_like(head: bytes, _file_name: str) -> bool:
    lines = head.splitlines()[:20]
    is_s3 = any(b" REST." in line or b" WEBSITE." in line for line in lines)
    return not is_s3 and any(b'] "' in line and b" HTTP/" in line for line in lines)


@source(
    outputs=(STORAGE_ACCESS,),
    options=(
        Option("format", "the server's log_format (nginx) or LogFormat (Apache) where it is not combined or common", ""),
        Option("routes", "own routes before the built-in ones: patterns with groups bucket, key and maybe version, parted by blanks", ""),
        Option("site", "bucket of paths that no route fits, where the log names no host", "web"),
    ),
    sniff=_looks_like,
)  # fmt: skip
def http_access(lines: pl.DataFrame, context: Context) -> Parsed:
    """Access logs of nginx and Apache: combined, common, with a virtual host or a list of proxies'
    addresses in front, nginx' `main`, ingress-nginx' default, or any stated format.

    Paths become bucket and key by routes: Hugging Face Hub mirrors (`/org/model/resolve/…`), MLflow's
    proxied artefacts, OCI registries, Git LFS, Artifactory and Nexus, and the user's own. A 302
    carries no weights: its status says so. `$body_bytes_sent` counts what was sent of a partial
    answer. The user of `-` is NULL, not anonymous: tokens are not logged. With `$http_range` or the
    answer's Content-Range in the format the interval is known, with `$request_id` repeats too.
    Paths are decoded once; `..` in them stays and names another key. Patterns run in linear time.
    """
    blank = pl.col("text").str.strip_chars() == ""
    body = lines.filter(~blank)
    try:
        known, routes = patterns(context.options.get("format", "")), _routes(context)
    except FormatError as error:
        return Parsed({}, rejects(body, str(error)), lines.height - body.height)
    cut = _cut(body, known)
    typed = _typed(cut.filter("is_cut"), routes, context)
    late = rejects(typed.filter(pl.col("ts").is_null()), "the time is none")
    strange = rejects(
        cut.filter(~pl.col("is_cut")), "not in the log format; state it with --set format=…"
    )
    good = typed.filter(pl.col("ts").is_not_null())
    bad = pl.concat([part.select(*REJECTS_SCHEMA) for part in (late, strange)])
    rows = fitting(good, STORAGE_ACCESS)
    return Parsed({"storage_access": rows}, scrubbed(bad), lines.height - body.height)


def _routes(context: Context) -> list[str]:
    """The user's routes and the built-in ones; FormatError for one that is no pattern."""
    own = context.options.get("routes", "").split()
    for route in own:
        if "(?P<bucket>" not in route or "(?P<key>" not in route:
            raise FormatError(f"route {route[:200]} has no groups bucket and key")
        try:
            pl.select(pl.lit("").str.extract_groups(route))
        except pl.exceptions.ComputeError:
            raise FormatError(f"route {route[:200]} is no pattern") from None
    return [*own, *_ROUTES]


def _cut(body: pl.DataFrame, known: list[str]) -> pl.DataFrame:
    """Fields of the first pattern that fits each line, as columns of text."""
    left, parts = body.select("line_no", "text"), []
    for pattern in known:
        hit = left["text"].str.contains(pattern)
        found = left.filter(hit).with_columns(
            pl.col("text").str.extract_groups(pattern).alias("cut")
        )
        parts.append(_complete(found.unnest("cut")).with_columns(is_cut=pl.lit(value=True)))
        left = left.filter(~hit)
    parts.append(_complete(left).with_columns(is_cut=pl.lit(value=False)))
    return pl.concat(parts).sort("line_no")


def _complete(found: pl.DataFrame) -> pl.DataFrame:
    names = [pl.col(n) if n in found.columns else pl.lit(None, pl.String).alias(n) for n in KNOWN]
    return found.select("line_no", "text", *names)


def _typed(cut: pl.DataFrame, routes: list[str], context: Context) -> pl.DataFrame:
    clock = pl.col("time_local").str.to_datetime(_CLOCK, time_unit="us", strict=False)
    request = pl.coalesce(
        "request", pl.concat_str("request_method", pl.lit(" "), pl.coalesce("request_uri", "uri"))
    )
    start, end = byte_range(
        pl.coalesce(unless(pl.col("sent_http_content_range"), "-"), "http_range")
    )
    size = (
        pl.col("sent_http_content_range")
        .str.extract(r"/(\d{1,18})\s*$")
        .cast(pl.Int64, strict=False)
    )
    host = pl.coalesce(*(unless(pl.col(n), "-") for n in ("http_host", "host", "server_name")))
    status = whole(pl.col("status"), pl.Int16)
    # Equal lines are requests of the same second, not repeats: the line's number tells them apart.
    own_id = pl.concat_str(line_id(pl.col("text")), pl.lit(":"), "line_no")
    seconds = pl.coalesce(
        pl.col("request_time").cast(pl.Float64, strict=False),
        pl.col("request_us").cast(pl.Float64, strict=False) / 1e6,
    )
    rows = cut.with_columns(
        pl.coalesce(
            clock.dt.replace_time_zone(None), instant(pl.col("time_iso8601")), epoch(pl.col("msec"), 1_000_000)
        ).alias("ts"),
        request.alias("request"),
        host.str.replace(r":[0-9]+$", "").alias("site"),
        request.str.extract(r"^([A-Z]+) ").alias("method"),
        request.str.extract(r"^[A-Z]+ (?:https?://[^/ ]*)?([^? ]*)").alias("path"),
        request.str.extract(r"^[A-Z]+ [^? ]*\?([^ ]*)").alias("query"),
        pl.lit(context.options["cluster"]).alias("cluster"),
        pl.lit("http_access").alias("source"),
        pl.lit("http").alias("store_kind"),
        pl.coalesce(unless(pl.col("request_id"), "-"), own_id).alias("request_id"),
        *_client(),
        redact(request).alias("request_uri"),
        host.alias("host_header"),
        status.alias("status"),
        status.fill_null(0).alias("answer"),
        whole(pl.coalesce(unless(pl.col("body_bytes_sent"), "-"), unless(pl.col("bytes_sent"), "-"))).alias("sent_bytes"),
        whole(unless(pl.col("request_length"), "-")).alias("received_bytes"),
        size.alias("object_bytes"),
        start.alias("range_start"),
        end.alias("range_end"),
        seconds.round(6).alias("total_s"),
        unless(pl.col("ssl_protocol"), "-").alias("tls_version"),
        unless(pl.col("ssl_cipher"), "-").alias("cipher"),
    )  # fmt: skip
    return _routed(rows, routes, context.options.get("site", "web"))


def _client() -> list[pl.Expr]:
    """Who asked, as far as the server knows. A proxy's header is believed: the server logs it."""
    user = unless(pl.col("remote_user"), "-")
    listed = pl.coalesce(unless(pl.col("http_x_forwarded_for"), "-"), "address_list")
    forwarded = listed.str.extract(r"^([0-9a-fA-F.:]+)(?:,|$)")
    return [
        user.alias("principal"),
        user.alias("requester"),
        pl.when(user.is_not_null()).then(pl.lit("user")).alias("principal_type"),
        address(pl.coalesce(forwarded, unless(pl.col("remote_addr"), "unix:"))).alias("ip"),
        unless(pl.col("http_user_agent"), "-").alias("user_agent"),
        redact(unless(pl.col("http_referer"), "-")).alias("referer"),
    ]


def _routed(rows: pl.DataFrame, routes: list[str], site: str) -> pl.DataFrame:
    """bucket, object_key, version_id, operation and op_class, by route and method."""
    found = {name: [] for name in ("bucket", "key", "version")}  # type: dict[str, list[pl.Expr]]
    for route in routes:
        groups = pl.col("path").str.extract_groups(route)
        for name, parts in found.items():
            if f"(?P<{name}>" in route:
                parts.append(groups.struct.field(name))
    is_query = pl.col("path").str.contains(_MLFLOW_QUERY)
    asked = [
        pl.when(is_query).then(pl.col("query").str.extract(rf"(?:^|&){n}=([^&]+)"))
        for n in ("run_uuid", "run_id", "name")
    ]
    plain = pl.concat_str(
        pl.coalesce(*asked), pl.lit("/"), pl.col("query").str.extract(r"(?:^|&)path=([^&]+)")
    )
    bucket = pl.coalesce(
        *found["bucket"], pl.when(is_query).then(pl.lit("mlflow-artifacts")), "site", pl.lit(site)
    )
    key, raw = unquoted(
        pl.coalesce(
            *found["key"], pl.when(is_query).then(plain), pl.col("path").str.strip_prefix("/")
        )
    )
    method = pl.col("method").fill_null("")
    is_list = (bucket == "mlflow-artifacts") & (method == "GET") & (key.fill_null("") == "")
    known = method.replace_strict(_METHODS, default="other", return_dtype=pl.String)
    return rows.with_columns(
        unquoted(bucket)[0].alias("bucket"),
        key.fill_null("").alias("object_key"),
        raw.alias("object_key_raw"),
        pl.coalesce(*found["version"], pl.lit("")).alias("version_id"),
        method.alias("operation"),
        pl.when(is_list).then(pl.lit("list")).otherwise(known).alias("op_class"),
    )
