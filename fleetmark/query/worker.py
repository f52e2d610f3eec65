"""The process that runs other people's SQL. Started by `process`, never imported by it.

It holds no catalog, no credentials and no environment, and gives up its rights (`confine`) before it
reads a statement. Every statement gets a fresh in-memory DuckDB that may open the listed Parquet
files and nothing else, with processor time limited and no new process or thread allowed; the parent
ends the process at the deadline.

Messages on file descriptor 0, length-prefixed: a JSON request and a JSON reply. Of `run` the body follows in
pieces, an empty one, and a last reply: how many rows it was, or what went wrong on the way. A piece is
written when the one before was taken, so an answer of any length needs the memory of one.
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
from fleetmark.query.answer import Reader
from fleetmark.query.confine import confine
from fleetmark.query.formats import FORMATS, encode
from fleetmark.query.guard import Parser, characters, tables_read
from fleetmark.spared import spare_pandas

_WARM_UP = "SELECT now(), [now()], 1.5, [1], DATE '2000-01-01', TIME '10:00', 'x', {'a': 1}"


def main() -> None:
    """Serve requests until the parent closes its end. `argv[1]`: the limits, as JSON."""
    spare_pandas()
    limits = json.loads(sys.argv[1])
    channel = Connection(os.dup(0))
    _warm_up()
    jailed = confine(limits["root"], limits["address_bytes"])
    parser = Parser()  # after that: its threads must have given up the same
    channel.send_bytes(json.dumps({"jailed": jailed}).encode())
    while True:
        try:
            request = json.loads(channel.recv_bytes())
        except EOFError:  # the parent is gone
            return
        for message in _answer(request, limits, parser):
            channel.send_bytes(
                message if isinstance(message, bytes) else json.dumps(message).encode()
            )


def _warm_up() -> None:
    """Load everything lazy while the file system is still there."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for form in FORMATS:
            connection.execute(_WARM_UP)
            list(encode(Reader(connection, 1, None), form))


Message = bytes | dict[str, Any]


def _answer(request: dict[str, Any], limits: dict[str, Any], parser: Parser) -> Iterator[Message]:
    """The replies to one request. What goes wrong after the first one ends the pieces."""
    begun = False
    try:
        if request["op"] == "tables":
            yield {"tables": sorted(tables_read(request["sql"], request["tables"], parser))}
            return
        for message in _run(request, limits):
            yield message
            begun = True
    except (QueryError, duckdb.Error, MemoryError, RecursionError) as error:
        if begun:
            yield b""
        yield _fault(error, request["sql"])


def _run(request: dict[str, Any], limits: dict[str, Any]) -> Iterator[Message]:
    form = request["format"]
    largest = limits["answer_bytes"] if form == "json" else limits["stream_bytes"]
    with _database(request, limits) as connection:
        try:
            json.dumps(request["params"], ensure_ascii=False).encode()
        except UnicodeError:  # JSON can write half a surrogate pair
            raise QueryError("a parameter holds text that is not Unicode") from None
        connection.execute(request["sql"], request["params"])
        # Of what is gathered whole, the rows are bounded, too: their text is no smaller.
        reader = Reader(connection, request["limit"], largest if form == "json" else None)
        yield {"columns": reader.columns}
        size = 0
        for piece in encode(reader, form):
            size += len(piece)
            if size > largest:
                raise QueryError(
                    f"the answer is larger than {largest:,} bytes: ask for fewer rows or columns, "
                    "or for Arrow",
                    reason="limit",
                )
            if piece:
                yield piece
    yield b""
    yield {"row_count": reader.row_count, "truncated": reader.truncated}


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


def _fault(error: Exception, sql: str) -> dict[str, Any]:
    if isinstance(error, QueryError):
        return _error(str(error), error.reason, error.position)
    used_up = isinstance(error, duckdb.OutOfMemoryException) or '"Out of Memory"' in str(error)
    if isinstance(error, duckdb.Error) and not used_up:
        return _duckdb_error(error, sql)
    return _out_of_memory()


def _error(message: str, reason: str, position: int | None) -> dict[str, Any]:
    return {"error": message, "reason": reason, "position": position}


def _out_of_memory() -> dict[str, Any]:
    """The process is worth replacing after this: `retire`."""
    message = "the query needs more memory than it may have: read fewer rows or columns"
    return {**_error(message, "limit", None), "retire": True}


def _duckdb_error(error: duckdb.Error, sql: str) -> dict[str, Any]:
    text = str(error)
    start = re.match(r"([\w ]+: )?(?=\{)", text)
    try:
        detail = json.loads(text[start.end() :]) if start else {}
    except ValueError:
        detail = {}
    message = detail.get("exception_message", text)
    if message.endswith("Interrupted!"):
        # Nobody can: an error in one thread interrupts the others, and 5 of 150 times DuckDB 1.5.5 tells that.
        message = "the query failed on the way, and its error was lost: run it again"
    kind = detail.get("exception_type", "")
    reason = "refused" if kind == "Permission" else "invalid"
    position = detail.get("position")
    if kind != "Parser":  # the parser counts characters, everything after it bytes
        position = characters(sql, position)
    return _error(message, reason, None if position is None else int(position))


if __name__ == "__main__":
    main()
