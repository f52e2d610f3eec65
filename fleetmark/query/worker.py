"""The process that runs other people's SQL. Started by `pool`, never imported by it.

It holds no catalog, no credentials and no environment, and gives up its rights (`confine`) before it
reads a statement. Every statement gets a fresh in-memory DuckDB that may open the listed Parquet
files and nothing else, with processor time limited and no new process or thread allowed; the parent
ends the process at the deadline.

Messages on file descriptor 0, length-prefixed: a JSON request, a JSON reply, then for `run` the body.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import resource
import sys
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

import duckdb

from fleetmark.errors import QueryError
from fleetmark.query.answer import FORMATS, encode, fetch
from fleetmark.query.confine import confine
from fleetmark.query.guard import characters, tables_read


def main() -> None:
    """Serve requests until the parent closes its end. `argv[1]`: the limits, as JSON."""
    limits = json.loads(sys.argv[1])
    channel = Connection(os.dup(0))
    _warm_up()
    jailed = confine(limits["root"], limits["address_bytes"])
    channel.send_bytes(json.dumps({"jailed": jailed}).encode())
    while True:
        try:
            request = json.loads(channel.recv_bytes())
        except EOFError:  # the parent is gone
            return
        reply, body = _answer(request, limits)
        channel.send_bytes(json.dumps(reply).encode())
        if body is not None:
            channel.send_bytes(body)


def _warm_up() -> None:
    """Load everything lazy while the file system is still there."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(
            "SELECT now(), [now()], 1.5, [1], DATE '2000-01-01', INTERVAL 1 DAY, TIME '10:00'"
        )
        result = fetch(connection, 1, 1 << 20)
        for form in FORMATS:
            encode(result, form)


def _answer(request: dict[str, Any], limits: dict[str, Any]) -> tuple[dict[str, Any], bytes | None]:
    sql = request["sql"]
    try:
        if request["op"] == "tables":
            return {"tables": sorted(tables_read(sql, request["tables"]))}, None
        return _run(request, limits)
    except QueryError as error:
        return _error(str(error), error.reason, error.position), None
    except duckdb.OutOfMemoryException:
        return _out_of_memory(), None
    except duckdb.Error as error:
        return _duckdb_error(error, sql), None
    except (MemoryError, RecursionError):
        return _out_of_memory(), None


def _run(request: dict[str, Any], limits: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    with _database(request, limits) as connection:
        connection.execute(request["sql"], request["params"])
        result = fetch(connection, request["limit"], limits["answer_bytes"])
    body = encode(result, request["format"])
    if len(body) > limits["answer_bytes"]:
        raise QueryError(
            f"the answer is larger than {limits['answer_bytes']:,} bytes: ask for fewer rows or "
            "columns, or for Arrow",
            reason="limit",
        )
    reply = {
        "columns": result.columns,
        "row_count": result.rows.num_rows,
        "truncated": result.truncated,
    }
    return reply, body


@contextlib.contextmanager
def _database(
    request: dict[str, Any], limits: dict[str, Any]
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A fresh database with the tables as views, locked; no thread or process can be added to it."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = math.ceil(used.ru_utime + used.ru_stime + limits["cpu_s"])
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    resource.setrlimit(resource.RLIMIT_NPROC, (hard, hard))
    with duckdb.connect(
        config={
            "threads": limits["threads"],
            "memory_limit": f"{limits['memory_mb']}MB",
            "temp_directory": "",
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "python_enable_replacements": False,
        }
    ) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, view in request["views"].items():
            kind = "TABLE" if view["held"] else "VIEW"
            connection.execute(f'CREATE {kind} "{name}" AS {view["sql"]}')
        connection.execute("SET allowed_paths = $1", [request["paths"]])
        connection.execute("SET errors_as_json = true")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        resource.setrlimit(resource.RLIMIT_NPROC, (0, hard))
        try:
            yield connection
        finally:
            resource.setrlimit(resource.RLIMIT_NPROC, (soft, hard))


def _error(message: str, reason: str, position: int | None) -> dict[str, Any]:
    return {"error": message, "reason": reason, "position": position}


def _out_of_memory() -> dict[str, Any]:
    """The process is worth replacing after this: `retire`."""
    message = "the query needs more memory than it may have: read fewer rows or columns"
    return {**_error(message, "limit", None), "retire": True}


def _duckdb_error(error: duckdb.Error, sql: str) -> dict[str, Any]:
    text = str(error)
    start = re.match(r"[\w ]+: (?=\{)", text)
    try:
        detail = json.loads(text[start.end() :]) if start else {}
    except ValueError:
        detail = {}
    message = detail.get("exception_message", text)
    kind = detail.get("exception_type", "")
    reason = "refused" if kind == "Permission" else "invalid"
    position = detail.get("position")
    if kind != "Parser":  # the parser counts characters, everything after it bytes
        position = characters(sql, position)
    return _error(message, reason, None if position is None else int(position))


if __name__ == "__main__":
    main()
