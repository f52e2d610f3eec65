"""The allow-list: one SELECT over catalogued tables, judged on DuckDB's own parse tree.

It reads the tree that the executing parser built, so there is no second grammar to disagree with.
What it lets through still runs in a confined process (`worker`): either layer holds alone.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any

import duckdb

from fleetmark.errors import QueryError

MAX_SQL_CHARS = 100_000
TABLE_FUNCTIONS = frozenset({"range", "generate_series", "unnest"})
# Table expressions, query nodes and their parts. A kind of node that is not listed is refused.
_NODES = frozenset(
    {
        "SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE",
        "BASE_TABLE", "SUBQUERY", "JOIN", "TABLE_FUNCTION", "EXPRESSION_LIST", "EMPTY", "PIVOT",
        "SHOW_REF",
        "ORDER_MODIFIER", "LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER", "DISTINCT_MODIFIER",
        "ORDER_DEFAULT", "ASCENDING", "DESCENDING",
    }
)  # fmt: skip
# Scalar functions that plan or run other SQL, tell settings or environment, write, or only wait.
_REFUSED_FUNCTIONS = frozenset(
    {
        "current_setting", "getenv", "getvariable", "pg_sleep", "sleep_ms", "write_log", "nextval",
        "currval", "json_serialize_plan", "json_serialize_sql", "json_deserialize_sql",
        "pg_get_viewdef", "in_search_path", "current_query",
    }
)  # fmt: skip


class Parser:
    """DuckDB's parser, kept open: to open a database costs 12 ms, to parse a hundredth of that.

    The text is a value to it, so no statement leaves anything behind. One that fails is opened anew: a
    database that DuckDB has given up would refuse everybody after.
    """

    def __init__(self) -> None:
        self._connection = self._open()

    def tree(self, sql: str) -> str:
        """The parse tree of `sql`, or where it ends, as JSON. Raises QueryError when there is neither."""
        try:
            row = self._connection.execute("SELECT json_serialize_sql($1)", [sql]).fetchone()
        except duckdb.Error as error:
            self._connection.close()
            self._connection = self._open()
            raise QueryError(f"the SQL cannot be parsed: {error}") from None
        return str(row[0]) if row else "{}"

    @staticmethod
    def _open() -> duckdb.DuckDBPyConnection:
        return duckdb.connect(config={"threads": 1})


def tables_read(sql: str, tables: Collection[str], parser: Parser) -> frozenset[str]:
    """The tables of `tables` that `sql` reads.

    Raises QueryError when it is anything but one SELECT over them and its own CTEs.
    """
    if len(sql) > MAX_SQL_CHARS:
        raise QueryError(
            f"the SQL has {len(sql):,} characters; {MAX_SQL_CHARS:,} are the limit", reason="limit"
        )
    names = {name.lower(): name for name in tables}
    statements = _parse(sql, parser)
    if len(statements) != 1:
        raise QueryError(
            f"one SELECT is asked for, {len(statements)} statements were found", reason="refused"
        )
    read: set[str] = set()
    for node, ctes in _nodes(statements[0]):
        _check_node(node, sql)
        if node.get("type") == "BASE_TABLE":
            name = str(node["table_name"]).lower()
            if _qualified(node) or (name not in ctes and name not in names):
                raise _refused(_unknown_table(node), node, sql)
            if name not in ctes:
                read.add(names[name])
    return frozenset(read)


def _parse(sql: str, parser: Parser) -> list[Any]:
    try:
        tree = json.loads(parser.tree(sql))
    except RecursionError:
        raise QueryError("the SQL is nested too deeply", reason="limit") from None
    if tree.get("error", True):
        if tree.get("error_type") == "not implemented":
            raise QueryError("only SELECT can be run here", reason="refused")
        raise QueryError(
            tree.get("error_message", "the SQL cannot be parsed"),
            # The parser counts characters, everything after it bytes.
            position=int(tree["position"]) if "position" in tree else None,
        )
    return list(tree["statements"])


def _nodes(tree: Any) -> Iterator[tuple[dict[str, Any], frozenset[str]]]:  # noqa: ANN401 - JSON
    """Every object of the tree, with the names of the CTEs in scope there."""
    stack: list[tuple[Any, frozenset[str]]] = [(tree, frozenset())]
    while stack:
        value, ctes = stack.pop()
        if isinstance(value, list):
            stack.extend((item, ctes) for item in value)
        elif isinstance(value, dict):
            scope = ctes | {
                str(entry["key"]).lower() for entry in (value.get("cte_map") or {}).get("map", [])
            }
            if "cte_name" in value:
                scope |= {str(value["cte_name"]).lower()}
            yield value, scope
            stack.extend((item, scope) for item in value.values())


def _check_node(node: dict[str, Any], sql: str) -> None:
    kind = node.get("type")
    if isinstance(kind, str) and "class" not in node:
        if kind not in _NODES and not kind.endswith("_TYPE_INFO"):
            raise _refused(f"{kind} is not offered here", node, sql)
        if kind == "SHOW_REF" and node.get("query") is None:
            raise _refused("SHOW is not offered here; DESCRIBE TABLE_NAME is", node, sql)
    if kind == "TABLE_FUNCTION":
        function = node["function"]
        if function.get("function_name", "").lower() not in TABLE_FUNCTIONS:
            raise _refused(
                f"table function {function.get('function_name')} is not offered here; "
                f"{', '.join(sorted(TABLE_FUNCTIONS))} are",
                function,
                sql,
            )
    elif str(node.get("function_name", "")).lower() in _REFUSED_FUNCTIONS:
        raise _refused(f"function {node['function_name']} is not offered here", node, sql)


def _qualified(node: dict[str, Any]) -> bool:
    return bool(
        node.get("catalog_name")
        or node.get("at_clause")
        or str(node.get("schema_name")).lower() not in {"", "main"}
    )


def _unknown_table(node: dict[str, Any]) -> str:
    parts = (node.get("catalog_name"), node.get("schema_name"), node["table_name"])
    name = ".".join(str(part) for part in parts if part)
    version = " at a version" if node.get("at_clause") else ""
    return f"there is no table {name}{version} here; `GET /tables` and `fleetmark tables` list them"


def _refused(message: str, node: dict[str, Any], sql: str) -> QueryError:
    return QueryError(
        message, reason="refused", position=characters(sql, node.get("query_location"))
    )


def characters(sql: str, position: int | str | None) -> int | None:
    """A position in characters, from DuckDB's in bytes; None where it has none."""
    text = sql.encode()
    at = None if position is None else int(position)
    if at is None or at > len(text):  # DuckDB's "no position" is the largest 64-bit number
        return None
    return len(text[:at].decode(errors="ignore"))
