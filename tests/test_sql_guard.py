"""Attacks on the SQL door, each tried on the whole guard and on the worker with the parser check off.

An attack passes when it is refused or harmless, and harmless is proved, not assumed: no file of the
lake changed, no file appeared, no secret in the answer, and the time was bounded.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from fleetmark.errors import QueryBusyError, QueryError
from fleetmark.query.formats import FORMATS
from fleetmark.query.guard import TABLE_FUNCTIONS, Parser, tables_read
from fleetmark.query.pool import Pool
from fleetmark.query.process import Answer, Limits, Worker
from fleetmark.query.snapshot import RowFilter, Snapshot, read_snapshot
from fleetmark.store import Store
from fleetmark.table import Column, Table

SECRET = "word-of-another-tenant"  # noqa: S105 - it stands for a secret
DEADLINE_S = 1.5
# Beside the deadline: a new worker may have to start first, on a busy machine.
SLACK_S = 8
LIMITS = Limits(deadline_s=DEADLINE_S, memory_mb=512)

READING = Table(
    name="reading",
    doc="what the caller may read",
    grain=("i",),
    columns=(Column("i", "BIGINT", "number"), Column("ts", "TIMESTAMP", "time")),
)
HIDDEN = Table(
    name="hidden",
    doc="another tenant's table, in the same lake",
    grain=("word",),
    columns=(Column("word", "VARCHAR", "secret"),),
)

ATTACKS = {
    # reading files
    "read a file as csv": "SELECT * FROM read_csv('{secret}', header => false)",
    "read a file as text": "SELECT content FROM read_text('{secret}')",
    "read a file as blob": "SELECT content FROM read_blob('{secret}')",
    "read a file in a scalar subquery": "SELECT (SELECT content FROM read_text('{secret}'))",
    "read a file in a CTE": "WITH x AS (FROM read_text('{secret}')) SELECT content FROM x",
    "read a file by name as a table": "SELECT * FROM '{secret_csv}'",
    "read a file by quoted name": 'SELECT * FROM "{secret_csv}"',
    "shadow a file name by a CTE out of scope":
        "SELECT * FROM (WITH \"{secret_csv}\" AS (SELECT 1) FROM \"{secret_csv}\"), '{secret_csv}'",
    "read passwd": "SELECT * FROM read_csv('/etc/passwd', header => false)",
    "read its own environment": "SELECT content FROM read_blob('/proc/self/environ')",
    "read the parent's environment": "SELECT content FROM read_blob('/proc/{pid}/environ')",
    "read its own memory map": "SELECT content FROM read_text('/proc/self/maps')",
    "list a folder": "SELECT * FROM glob('{outside}/*')",
    "list the root": "SELECT * FROM glob('/*')",
    "climb out of the lake": "SELECT * FROM read_text('{data}/../../outside/secret.txt')",
    "climb out of a listed file": "SELECT * FROM read_text('{file}/../../../../outside/secret.txt')",
    "read another tenant's Parquet": "SELECT * FROM read_parquet('{hidden}')",
    "read another tenant's Parquet, seen from the jail": "FROM read_parquet('{hidden_jailed}')",
    "read all Parquet of the lake": "SELECT * FROM read_parquet('{data}/**/*.parquet')",
    "read all Parquet of the jail": "SELECT * FROM read_parquet('/**/hidden/**/*.parquet')",
    "read another tenant's Parquet by name": "SELECT * FROM '{hidden}'",
    "read the catalog": "SELECT * FROM read_blob('{catalog}')",
    "sniff a file": "SELECT * FROM sniff_csv('{secret_csv}')",
    "metadata of a Parquet file": "SELECT * FROM parquet_metadata('{hidden}')",
    "key-value metadata of a Parquet file": "SELECT * FROM parquet_kv_metadata('{hidden}')",
    "read JSON": "SELECT * FROM read_json('{secret_json}')",
    "read a database file": "SELECT * FROM read_duckdb('{catalog}')",
    "read over http": "SELECT * FROM read_csv('http://127.0.0.1:9/{word}')",
    "read from object storage": "SELECT * FROM read_parquet('s3://bucket/{word}')",
    "serialised SQL that reads": "SELECT * FROM json_execute_serialized_sql("
        "json_serialize_sql('SELECT content FROM read_text(''{secret}'')'))",
    "pragma with serialised SQL": "PRAGMA json_execute_serialized_sql("
        "json_serialize_sql('SELECT content FROM read_text(''{secret}'')'))",
    "plan of SQL that reads": "SELECT json_serialize_plan('SELECT * FROM read_csv(''{secret_csv}'')')",
    "query function": "SELECT * FROM query('SELECT * FROM read_text(''{secret}'')')",
    "query_table function": "SELECT * FROM query_table('{secret_csv}')",
    "a Python variable as a table": "SELECT * FROM limits",
    "another tenant's table": "SELECT * FROM hidden",
    # settings, environment, catalogs
    "environment function": "SELECT getenv('FLEETMARK_TEST_SECRET')",
    "settings function": "SELECT current_setting('allowed_paths')::VARCHAR",
    "settings table": "SELECT * FROM duckdb_settings() WHERE name = 'temp_directory'",
    "views of the catalog": "SELECT sql FROM duckdb_views() WHERE view_name = 'hidden'",
    "information schema": "SELECT * FROM information_schema.tables WHERE table_name = 'hidden'",
    "sqlite_master": "SELECT * FROM sqlite_master WHERE name = 'hidden'",
    "lake metadata": "SELECT * FROM __ducklake_metadata_lake.ducklake_data_file",
    "secrets": "SELECT * FROM duckdb_secrets()",
    "show databases": "SHOW DATABASES",
    "show all tables": "SHOW ALL TABLES",
    "describe another tenant's table": "DESCRIBE hidden",
    "summarize another tenant's table": "SUMMARIZE hidden",
    "pragma of another tenant's table": "PRAGMA table_info('hidden')",
    "pragma that shows tables": "PRAGMA show_tables_expanded",
    "storage of another tenant's table": "SELECT * FROM pragma_storage_info('hidden')",
    "columns of the information schema":
        "SELECT table_name FROM information_schema.columns WHERE table_name = 'hidden'",
    "tables of the PostgreSQL catalog": "SELECT relname FROM pg_catalog.pg_class WHERE relname = 'hidden'",
    "views of the PostgreSQL catalog": "SELECT definition FROM pg_catalog.pg_views WHERE viewname = 'hidden'",
    "tables by function": "SELECT table_name, sql FROM duckdb_tables() WHERE table_name = 'hidden'",
    "columns by function": "SELECT * FROM duckdb_columns() WHERE table_name = 'hidden'",
    "another tenant's table through a view":
        "CREATE TEMP VIEW seen AS SELECT * FROM read_parquet('{hidden}'); SELECT * FROM seen",
    "another tenant's table through a macro":
        "CREATE TEMP MACRO seen() AS TABLE SELECT * FROM read_parquet('{hidden}'); SELECT * FROM seen()",
    "another tenant's table through a scalar macro":
        "CREATE MACRO w() AS (SELECT any_value(word) FROM read_parquet('{hidden}')); SELECT w()",
    "another tenant's table in a lambda":
        "SELECT list_transform([1], lambda x: (SELECT any_value(word) FROM read_parquet('{hidden}')))",
    "another tenant's table in HAVING":
        "SELECT 1 FROM reading GROUP BY ALL HAVING (SELECT count(*) FROM hidden) > 0",
    "another tenant's table in a window":
        "SELECT max((SELECT word FROM hidden)) OVER () FROM reading",
    "another tenant's table in LIMIT":
        "SELECT 1 FROM reading LIMIT (SELECT length(word) FROM hidden)",
    "another tenant's table laterally":
        "SELECT * FROM reading, LATERAL (SELECT * FROM hidden WHERE length(word) > i)",
    "another tenant's table in a set operation": "SELECT i FROM reading EXCEPT SELECT length(word) FROM hidden",
    "another tenant's table behind a CTE of its name":
        "WITH hidden AS (SELECT * FROM main.hidden) SELECT * FROM hidden",
    "another tenant's table in another catalog": "SELECT * FROM memory.main.hidden",
    "another tenant's table, quoted and in capitals": 'SELECT * FROM "HIDDEN"',
    "another tenant's table by a wildcard of columns":
        "SELECT COLUMNS(c -> true) FROM (FROM reading POSITIONAL JOIN hidden)",
    "schema of another tenant's Parquet": "SELECT * FROM parquet_schema('{hidden}')",
    "bloom filter of another tenant's Parquet": "SELECT * FROM parquet_bloom_probe('{hidden}', 'word', 'x')",
    "metadata of a listed file's neighbours": "SELECT * FROM parquet_file_metadata('{data}/**/*.parquet')",
    "a listed file twice, the second one hidden": "SELECT * FROM read_parquet(['{file}', '{hidden}'])",
    "file names as a column": "SELECT filename FROM read_parquet('{data}/**/*.parquet', filename => true)",
    "the lake attached anew": "ATTACH 'ducklake:sqlite:{catalog}' AS lake",
    "the lake's own change feed": "SELECT * FROM ducklake_table_changes('lake', 'main', 'hidden', 0, 9)",
    "the lake at an older version": "SELECT * FROM reading AT (VERSION => 1)",
    "a variable that is set": "SET VARIABLE x = (SELECT content FROM read_text('{secret}'))",
    "a variable that is read": "SELECT getvariable('x')",
    "a secret that is made": "CREATE SECRET s (TYPE s3, KEY_ID 'x', SECRET 'y')",
    "a comment on a table": "COMMENT ON VIEW reading IS 'x'",
    "a type that is made": "CREATE TYPE made AS ENUM ('x')",
    "a transaction": "BEGIN TRANSACTION",
    "vacuum": "VACUUM ANALYZE",
    "an update": "UPDATE reading SET i = 1",
    "a merge": "MERGE INTO reading USING (SELECT 1 AS i) s ON false WHEN NOT MATCHED THEN INSERT VALUES (1, NULL)",
    "an alter": "ALTER VIEW reading RENAME TO taken",
    "a call": "CALL pragma_version()",
    "use another schema": "USE information_schema",
    # writing
    "copy to a new file": "COPY (SELECT 1) TO '{outside}/made.csv'",
    "copy over a listed file":
        "COPY (SELECT 1 AS i) TO '{file}' (FORMAT parquet, USE_TMP_FILE false)",
    "copy over a listed file, seen from the jail":
        "COPY (SELECT 1 AS i) TO '{file_jailed}' (FORMAT parquet, USE_TMP_FILE false)",
    "copy into the lake": "COPY (SELECT 1 AS i) TO '{data}/made.parquet'",
    "copy in a CTE": "WITH t AS (COPY (SELECT 1) TO '{outside}/made.csv') SELECT 1",
    "export the database": "EXPORT DATABASE '{outside}/made'",
    "create a table": "CREATE TABLE made AS SELECT 1",
    "create a macro": "CREATE MACRO made() AS TABLE SELECT * FROM read_text('{secret}')",
    "replace a view": "CREATE OR REPLACE VIEW reading AS SELECT '{word}'::VARCHAR[2:3] AS x",
    "drop a view": "DROP VIEW reading",
    "insert": "INSERT INTO reading VALUES (1, NULL)",
    "delete in a CTE": "WITH d AS (DELETE FROM reading RETURNING *) SELECT * FROM d",
    "attach a file": "ATTACH '{outside}/made.db' AS made",
    "attach the catalog": "ATTACH '{catalog}' AS c (TYPE sqlite)",
    "write a log": "SELECT write_log('x', scope => 'database')",
    "log to a file": "CALL enable_logging(storage => 'file', storage_path => '{outside}')",
    "checkpoint": "FORCE CHECKPOINT",
    # changing the worker
    "unlock": "SET lock_configuration = false",
    "reset the lock": "RESET lock_configuration",
    "open access again": "SET enable_external_access = true",
    "list more paths": "SET allowed_directories = ['/']",
    "raise the memory limit": "SET memory_limit = '100GB'",
    "profile to a file": "PRAGMA profiling_output = '{outside}/made.json'",
    "install an extension": "INSTALL httpfs",
    "load an extension": "LOAD '{secret}'",
    "two statements": "SELECT 1; SELECT content FROM read_text('{secret}')",
    "two statements, the first one writes":
        "COPY (SELECT 1) TO '{outside}/made.csv'; SELECT 1",
    "prepare and execute": "PREPARE p AS SELECT content FROM read_text('{secret}'); EXECUTE p",
    "explain analyze": "EXPLAIN ANALYZE SELECT content FROM read_text('{secret}')",
    "a comment that hides": "SELECT 1 --\n; SELECT content FROM read_text('{secret}') --",
    # using up
    "repeat bomb": "SELECT length(repeat('x', 2000000000)), length(repeat('y', 2000000000))",
    "range bomb": "SELECT len(range(2000000000))",
    "list bomb": "SELECT len(list(a.range)) FROM range(100000) a, range(100000) b",
    "cross join": "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range % 7 < b.range",
    "endless recursion":
        "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r) SELECT count(*) FROM r",
    "sort that spills": "SELECT hash(range) h FROM range(300000000) ORDER BY h",
    "wait": "SELECT sleep_ms(600000)",
    "wait like PostgreSQL": "SELECT pg_sleep(600)",
    "many terms": "SELECT " + "+".join(["1"] * 20_000),
    "deep parentheses": "SELECT " + "(" * 20_000 + "1" + ")" * 20_000,
    "deep lists": "SELECT " + "[" * 5_000 + "1" + "]" * 5_000,
    "long SQL": "SELECT '" + "x" * 3_000_000 + "'",
    "large answer": "SELECT repeat('x', 100000) FROM range(10000000)",
    "wide answer": "SELECT " + ", ".join(f"repeat('x', 100000) AS c{i}" for i in range(1000)),
}  # fmt: skip


@dataclass(frozen=True)
class Lair:
    """A lake with one table to read, one to hide, and a folder beside it with secrets."""

    root: Path
    snapshot: Snapshot
    names: dict[str, str]

    def hashes(self) -> dict[str, str]:
        files = [p for p in self.root.rglob("*") if p.is_file() and "catalog" not in p.name]
        return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


@pytest.fixture(scope="module")
def lair(tmp_path_factory: pytest.TempPathFactory) -> Lair:
    root = tmp_path_factory.mktemp("lair")
    outside = root / "outside"
    outside.mkdir()
    for ending in ("txt", "csv", "json"):
        text = f'{{"word": "{SECRET}"}}' if ending == "json" else f"{SECRET}\n"
        (outside / f"secret.{ending}").write_text(text)
    with Store(root / "lake") as store:
        store.ensure([READING, HIDDEN])
        fill = "INSERT INTO lake.reading SELECT i, TIMESTAMP '2026-01-01' FROM range(1000) t(i)"
        store.commit(lambda: store.connection.execute(fill))
        store.commit(lambda: store.connection.execute("DELETE FROM lake.reading WHERE i >= 10"))
        hide = f"INSERT INTO lake.hidden VALUES ('{SECRET}')"
        store.commit(lambda: store.connection.execute(hide))
        hidden = store.files("hidden")[0][0]
        snapshot = read_snapshot(store, [READING])
    data = snapshot.root
    file = snapshot.files["reading"][0][0]
    return Lair(root, snapshot, {
        "outside": str(outside), "secret": str(outside / "secret.txt"),
        "secret_csv": str(outside / "secret.csv"), "secret_json": str(outside / "secret.json"),
        "data": str(data), "file": file, "hidden": hidden, "word": SECRET[:3],
        "file_jailed": "/" + str(Path(file).relative_to(data)),
        "hidden_jailed": "/" + str(Path(hidden).relative_to(data)),
        "catalog": str(root / "lake" / "catalog.sqlite"), "pid": str(os.getpid()),
    })  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def environment() -> Iterator[None]:
    os.environ["FLEETMARK_TEST_SECRET"] = SECRET
    yield
    del os.environ["FLEETMARK_TEST_SECRET"]


@pytest.fixture(scope="module")
def pool(lair: Lair) -> Iterator[Pool]:
    with Pool(lair.snapshot.root, size=1, limits=LIMITS) as pool:
        yield pool


@pytest.fixture(scope="module")
def unguarded(lair: Lair) -> Iterator[list[Worker]]:
    workers = [Worker(lair.snapshot.root, LIMITS)]
    yield workers
    workers[0].kill()


def assert_harmless(lair: Lair, before: dict[str, str], answer: Answer | None) -> None:
    assert lair.hashes() == before, "a file changed or appeared"
    if answer is not None:
        assert SECRET.encode() not in answer.body
        assert b"root:" not in answer.body


def sql_of(attack: str, lair: Lair) -> str:
    sql = ATTACKS[attack]
    return sql.format(**lair.names) if "{" in sql else sql


def test_there_are_enough_attacks() -> None:
    assert len(ATTACKS) >= 60


@pytest.mark.parametrize("attack", ATTACKS)
def test_guard_refuses(attack: str, lair: Lair, pool: Pool) -> None:
    before = lair.hashes()
    started = time.monotonic()
    with pytest.raises(QueryError) as refusal:
        pool.query(sql_of(attack, lair), lair.snapshot)
    assert time.monotonic() - started < DEADLINE_S + SLACK_S
    assert SECRET not in str(refusal.value)
    assert_harmless(lair, before, None)
    assert pool.query("SELECT count(*) AS n FROM reading", lair.snapshot).body == b'[{"n": 10}]'


@pytest.mark.parametrize("attack", ATTACKS)
def test_worker_alone_holds(attack: str, lair: Lair, unguarded: list[Worker]) -> None:
    """Without the parse-tree check: whatever comes back is no secret, and nothing changed."""
    if not unguarded[0].alive:
        unguarded[0] = Worker(lair.snapshot.root, LIMITS)
    before = lair.hashes()
    started = time.monotonic()
    answer = None
    try:
        answer = unguarded[0].run(
            sql_of(attack, lair), lair.snapshot, ["reading"], limit=10_000, form="json"
        )
    except QueryError as refusal:
        assert SECRET not in str(refusal)  # noqa: PT017 - both outcomes are allowed
    assert time.monotonic() - started < DEADLINE_S + SLACK_S
    assert_harmless(lair, before, answer)
    if not unguarded[0].alive:
        unguarded[0] = Worker(lair.snapshot.root, LIMITS)
    count = unguarded[0].run(
        "SELECT count(*) AS n FROM reading", lair.snapshot, ["reading"], limit=1, form="json"
    )
    assert count.body == b'[{"n": 10}]'


def test_rows_of_another_team_are_not_there(lair: Lair) -> None:
    """A narrowed table is a copy: with the parser check off, too, its files give nothing."""
    snapshot = replace(lair.snapshot, rows={"reading": RowFilter("i < 5")})
    file = lair.names["file"]
    inside = lair.names["file_jailed"]
    with Pool(lair.snapshot.root, size=1, limits=LIMITS) as pool:
        assert pool.query("SELECT max(i) AS top FROM reading", snapshot).body == b'[{"top": 4}]'
    worker = Worker(lair.snapshot.root, LIMITS)
    for sql in (
        f"SELECT i FROM read_parquet('{file}')", f"SELECT i FROM read_parquet('{inside}')",
        f"SELECT i FROM '{file}'", f"SELECT i FROM '{inside}'",
        f"SELECT stats_max FROM parquet_metadata('{inside}')", f"SELECT * FROM read_blob('{inside}')",
        "SELECT sql FROM duckdb_tables() WHERE sql LIKE '%parquet%'",
        "SELECT sql FROM duckdb_views() WHERE NOT internal",
    ):  # fmt: skip
        try:
            answer = worker.run(sql, snapshot, ["reading"], limit=10, form="json")
        except QueryError:
            continue
        assert answer.body == b"[]", sql
    worker.kill()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM reading",
        "FROM READING",
        "TABLE main.reading",
        "DESCRIBE reading",
        "SUMMARIZE reading",
        "VALUES (1), (2)",
        "SELECT 1;",
        "WITH a AS (SELECT i FROM reading), b AS MATERIALIZED (FROM a) SELECT count(*) FROM b",
        "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r WHERE i < 5) FROM r",
        "SELECT i, row_number() OVER (PARTITION BY i % 2 ORDER BY i) FROM reading QUALIFY i < 3",
        "SELECT quantile_cont(i, 0.5), count(*) FILTER (WHERE i > 2) FROM reading GROUP BY ALL",
        "SELECT * FROM reading a ASOF JOIN reading b ON a.ts >= b.ts LIMIT 3",
        "SELECT list_transform([1, 2], lambda x: x + 1), unnest([1, 2])",
        "SELECT * FROM range(3), generate_series(1, 2), unnest(['a']) LIMIT 50%",
        "SELECT date_trunc('day', ts), i::DECIMAL(10, 2) FROM reading ORDER BY ALL",
        "FROM reading PIVOT (count(*) FOR i IN (1, 2))",
        "SELECT * FROM reading UNION ALL BY NAME SELECT 1 AS i",
        "SELECT regexp_matches(repeat('a', 1000000), '(a|a)*b')",
        "SELECT 'read_text(''/etc/passwd'')' AS only_a_string",
    ],
)
def test_honest_sql_runs(sql: str, lair: Lair, pool: Pool) -> None:
    assert pool.query(sql, lair.snapshot).row_count > 0


def test_deleted_rows_stay_deleted(lair: Lair, pool: Pool) -> None:
    assert any(deletes for _, deletes in lair.snapshot.files["reading"])
    body = pool.query("SELECT max(i) AS top, count(*) AS n FROM reading", lair.snapshot).body
    assert body == b'[{"top": 9, "n": 10}]'


@pytest.mark.parametrize("form", FORMATS)
def test_truncation_is_told(form: str, lair: Lair, pool: Pool) -> None:
    for limit, truncated in ((9, True), (10, False), (11, False)):
        answer = pool.query("FROM reading", lair.snapshot, limit=limit, form=form)  # type: ignore[arg-type]  # from FORMATS
        assert (answer.row_count, answer.truncated) == (min(limit, 10), truncated)


@pytest.mark.parametrize(
    ("sql", "position"),
    [
        ("SELEC 1", 0),
        ("SELECT 'ä', nope FROM reading", 12),
        ("SELECT 1 FROM nowhere", 14),
        ("SELECT * FROM read_csv('x')", 14),
        ("SELECT i FROM reading WHERE ö = 1", 28),
    ],
)
def test_errors_say_where(sql: str, position: int, lair: Lair, pool: Pool) -> None:
    with pytest.raises(QueryError) as error:
        pool.query(sql, lair.snapshot)
    assert error.value.position == position


def test_parameters_are_bound(lair: Lair, pool: Pool) -> None:
    answer = pool.query("SELECT $1 AS a", lair.snapshot, params=["'; DROP TABLE reading"])
    assert answer.body == b"""[{"a": "'; DROP TABLE reading"}]"""
    answer = pool.query("SELECT $x + 1 AS a", lair.snapshot, params={"x": 41})
    assert answer.body == b'[{"a": 42}]'


def test_no_table_function_but_the_listed(lair: Lair) -> None:
    """Every table function that DuckDB has, by its own list."""
    import duckdb  # noqa: PLC0415 - only this test asks DuckDB itself

    with duckdb.connect() as connection:
        functions = connection.execute(
            "SELECT DISTINCT function_name FROM duckdb_functions() "
            "WHERE function_type IN ('table', 'table_macro', 'pragma')"
        ).fetchall()
    assert len(functions) > 100
    parser = Parser()
    for (name,) in functions:
        if name not in TABLE_FUNCTIONS:
            with pytest.raises(QueryError):
                tables_read(f'SELECT * FROM "{name}"()', ["reading"], parser)


def test_a_parser_that_failed_refuses_nobody_after() -> None:
    parser = Parser()
    parser._connection.close()  # as a database that DuckDB has given up
    with pytest.raises(QueryError, match="cannot be parsed"):
        tables_read("SELECT i FROM reading", ["reading"], parser)
    assert tables_read("SELECT i FROM reading", ["reading"], parser) == {"reading"}


def _status(worker: Worker) -> dict[str, str]:
    lines = Path(f"/proc/{worker._process.pid}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_worker_has_given_up_its_rights(lair: Lair, unguarded: list[Worker]) -> None:
    worker = unguarded[0]
    worker.run("SELECT 1", lair.snapshot, [], limit=1, form="json")
    process = Path(f"/proc/{worker._process.pid}")
    assert (process / "environ").read_bytes() == b""
    limits = (process / "limits").read_text()
    assert ["Max", "file", "size", "0", "0"] in [line.split()[:5] for line in limits.splitlines()]
    assert str(LIMITS.address_bytes) in limits
    if os.geteuid() == 0:
        status = _status(worker)
        assert status["Uid"].split() == ["65534"] * 4
        assert status["Groups"].strip() == ""
        assert int(status["CapEff"], 16) == 0


ROGUE = """
import os, socket, sys
from fleetmark.query.confine import confine
root, file, secret, user = sys.argv[1:]
if user == "ordinary":
    os.geteuid = lambda: 1000
inside = file[len(root):] if confine(root, 3 << 30) else file
assert open(inside, "rb").read(4) == b"PAR1"
for action in (lambda: open(inside, "r+b"), lambda: os.truncate(inside, 0),
               lambda: os.unlink(inside), lambda: open(os.path.dirname(inside) + "/made", "w"),
               lambda: open(secret).read(), lambda: open("/etc/passwd").read(),
               lambda: socket.socket().connect(("127.0.0.1", 9))):
    try:
        action()
    except ConnectionRefusedError:
        sys.exit("the network was reached")
    except OSError:
        continue
    sys.exit("something worked")
"""


@pytest.mark.parametrize("user", ["root", "ordinary"])
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can try both")
def test_operating_system_alone_stops_reads_and_writes(user: str, lair: Lair) -> None:
    """Code that runs freely in a confined process, DuckDB out of the picture."""
    before = lair.hashes()
    names = [lair.names["data"], lair.names["file"], lair.names["secret"], user]
    done = subprocess.run(
        [sys.executable, "-c", ROGUE, *names], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert lair.hashes() == before


def test_killed_worker_is_replaced(lair: Lair) -> None:
    with Pool(lair.snapshot.root, size=1, limits=LIMITS) as pool:
        process = pool._idle.queue[0]._process
        process.kill()
        process.wait()
        assert pool.query("SELECT 1 AS one", lair.snapshot).row_count == 1


def test_many_callers_share_few_workers(lair: Lair) -> None:
    answers: list[int] = []
    with Pool(lair.snapshot.root, size=2, limits=LIMITS) as pool:

        def ask() -> None:
            answers.append(pool.query("FROM reading", lair.snapshot).row_count)

        threads = [threading.Thread(target=ask) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == [10] * 12


def test_callers_do_not_wait_for_ever(lair: Lair) -> None:
    limits = Limits(deadline_s=2.0, wait_s=0.1)
    with Pool(lair.snapshot.root, size=1, limits=limits) as pool:
        pool.query("SELECT 1", lair.snapshot)
        slow = "SELECT count(*) FROM range(1000000) a, range(1000000) b"

        def hold() -> None:
            with pytest.raises(QueryError):
                pool.query(slow, lair.snapshot)

        thread = threading.Thread(target=hold)
        thread.start()
        time.sleep(0.3)
        with pytest.raises(QueryBusyError):
            pool.query("SELECT 1", lair.snapshot)
        thread.join()
