"""Files to tables to findings: repeats, cuts, late rows, damaged files, several processes."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleetmark.catalog import Catalog
from fleetmark.errors import InputError, StoreError
from fleetmark.pipeline import known as known_module
from fleetmark.pipeline import lines as lines_module
from fleetmark.pipeline import ranges as ranges_module
from fleetmark.pipeline import run as run_module
from fleetmark.pipeline.build import build
from fleetmark.pipeline.detect import detect
from fleetmark.pipeline.known import FileRecord, Found
from fleetmark.pipeline.run import FileReport, ingest
from fleetmark.store import Store, files_sql
from fleetmark.store_tables import INGEST_FILE
from fleetmark.summary import summarise
from fleetmark.testing import EPOCH

FIRST = datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None)


def gate_lines(count: int, step_s: int = 3600) -> str:
    return "".join(
        f"{(FIRST + timedelta(seconds=n * step_s)).isoformat()} person{n % 3} door{n % 5}\n"
        for n in range(count)
    )


def load(store: Store, example: Catalog, *paths: Path, **stated: str) -> list[FileReport]:
    return list(ingest(store, example, "gate_log", paths, stated, {}, EPOCH))


def hashes(store: Store, example: Catalog) -> dict[str, tuple[int, str]]:
    return {
        s.name: (s.row_count, s.content_hash) for s in summarise(store, example.tables.values())
    }


def fresh(folder: Path, example: Catalog) -> Store:
    store = Store(folder, memory_mb=512)
    store.ensure(example.tables.values())
    return store


def one(store: Store, sql: str) -> object:
    row = store.connection.execute(sql).fetchone()
    return row[0] if row else None


@settings(
    max_examples=8, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
@given(
    cuts=st.lists(st.floats(0, 1), min_size=1, max_size=3),
    chunk=st.integers(150, 600),
    ended=st.booleans(),
    damaged=st.booleans(),
)
def test_cut_anywhere_and_then_whole_is_once(
    cuts: list[float], chunk: int, ended: bool, damaged: bool, example: Catalog,
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(lines_module, "CHUNK_BYTES", chunk)
    tmp_path = tmp_path_factory.mktemp("cut")
    content = gate_lines(20).encode()
    if damaged:
        content = content[:100] + b"\nnot a line\n\xff\xfe\n# comment\n" + content[100:]
    content = content if ended else content.rstrip(b"\n")
    whole = tmp_path / "whole.log"
    whole.write_bytes(content)
    with fresh(tmp_path / "once", example) as store:
        load(store, example, whole)
        expected = hashes(store, example)
    with fresh(tmp_path / "parts", example) as store:
        for n, share in enumerate(sorted(cuts)):
            part = tmp_path / f"part{n}.log"
            part.write_bytes(content[: int(len(content) * share)] or b"2")
            load(store, example, part)
        load(store, example, whole)
        load(store, example, whole)
        assert hashes(store, example) == expected
        read, rows, rejects, skipped = store.connection.execute(
            "SELECT line_count, row_count + repeat_count, reject_count, skipped_count "
            "FROM lake.ingest_file"
        ).fetchall()[0]
        assert read == rows + rejects + skipped == len(content.splitlines())


def test_same_rows_from_other_files_are_not_counted_twice(
    store: Store, example: Catalog, tmp_path: Path
) -> None:
    early, late = tmp_path / "a.log", tmp_path / "b.log"
    lines = gate_lines(10).splitlines(keepends=True)
    early.write_text("".join(lines[:7]))
    late.write_text("".join(reversed(lines[4:])))
    load(store, example, early)
    (report,) = load(store, example, late)
    assert (report.row_count, report.repeat_count) == (3, 3)
    assert one(store, "SELECT count(*) FROM lake.passage") == 10


def test_a_cut_file_and_the_whole_one_in_one_run(
    store: Store, example: Catalog, tmp_path: Path
) -> None:
    cut, whole = tmp_path / "a", tmp_path / "b"
    whole.write_text(gate_lines(9))
    cut.write_text(gate_lines(9)[:100])
    first, second = load(store, example, cut, whole)
    assert (first.row_count, second.row_count, second.state) == (3, 9, "resumed")
    assert one(store, "SELECT count(*) FROM lake.passage WHERE length(door) = 5") == 9
    assert one(store, "SELECT count(*) FROM lake.passage") == 9


def test_a_moved_file_is_known(store: Store, example: Catalog, tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text(gate_lines(5))
    load(store, example, path)
    (report,) = load(store, example, path.rename(tmp_path / "b.log"))
    assert report.state == "unchanged"
    (report,) = load(store, example, tmp_path / "b.log", cluster="elsewhere")
    assert (report.state, report.row_count) == ("read", 5)


def test_copies_are_reported_under_their_own_names(
    store: Store, example: Catalog, tmp_path: Path
) -> None:
    paths = [tmp_path / name for name in ("a.log", "b.log", "c.log")]
    for path in paths:
        path.write_text(gate_lines(5))
    for _ in range(2):
        reports = load(store, example, *paths)
        assert [report.path for report in reports] == [str(path) for path in paths]
    assert {report.state for report in reports} == {"unchanged"}


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_packed_files(pack: object, store: Store, example: Catalog, tmp_path: Path) -> None:
    assert callable(pack)
    packed = pack(gate_lines(3000, 60).encode())
    cut, whole = tmp_path / "cut", tmp_path / "whole"
    cut.write_bytes(packed[: len(packed) * 2 // 3])
    whole.write_bytes(packed)
    (report,) = load(store, example, cut)
    assert "cut or damaged" in report.message
    (report,) = load(store, example, whole)
    assert (report.row_count, report.reject_count, report.message) == (3000, 0, "")
    assert one(store, "SELECT count(*) FROM lake.passage") == 3000


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"\x00\x01\x02" * 200, "NUL bytes"),
        (b"x" * (10 << 20), "line of 10485760 bytes is longer than the limit of 1 MiB"),
        (b"x" * (2 << 20) + b"\n", "line of 2097152 bytes is longer"),
        (b"2026-01-01T00:00:00 a b\n\xff\xfe\n", "not valid UTF-8 at byte 0"),
        (b"\x28\xb5\x2f\xfdrest", "zstd-compressed: unpack it first"),
        (b"\x1f\x8bnot gzip at all", "cut or damaged"),
        ("\ufeff2026-01-01 a\n".encode("utf-16-le"), "UTF-16 text: save it as UTF-8"),
        ("\ufeff2026-01-01 a\n".encode("utf-16-be"), "UTF-16 text: save it as UTF-8"),
        (b"name,door\n", "not TIME PERSON DOOR"),
    ],
)
def test_bad_files_are_quarantined_with_line_and_reason(
    content: bytes, message: str, store: Store, example: Catalog, tmp_path: Path
) -> None:
    path = tmp_path / "bad.log"
    path.write_bytes(content)
    (report,) = load(store, example, path)
    assert message in report.message
    stored = store.connection.execute("SELECT path, line_no, reason FROM lake.reject").fetchall()
    assert [(str(path), message in reason) for path, _, reason in stored] == [(str(path), True)]
    before = hashes(store, example)
    load(store, example, path)
    assert hashes(store, example) == before


def test_a_long_line_between_good_ones(
    store: Store, example: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines_module, "CHUNK_BYTES", 1 << 19)
    good = gate_lines(2).splitlines(keepends=True)
    path = tmp_path / "long.log"
    path.write_text(good[0] + "y" * (3 << 20) + "\n" + good[1])
    (report,) = load(store, example, path)
    assert (report.line_count, report.row_count, report.reject_count) == (3, 2, 1)
    assert report.message.startswith("line 2: line of 3145728 bytes")


def test_a_byte_order_mark_is_no_text(store: Store, example: Catalog, tmp_path: Path) -> None:
    plain, marked = gate_lines(3).encode(), tmp_path / "marked.log"
    for count in (2, 3):
        marked.write_bytes(b"\xef\xbb\xbf" + b"".join(plain.splitlines(keepends=True)[:count]))
        (report,) = load(store, example, marked)
        assert (report.row_count, report.reject_count) == (count, 0)
    assert report.state == "resumed"
    assert one(store, "SELECT count(*) FROM lake.passage") == 3


def test_a_long_line_that_goes_on_later(store: Store, example: Catalog, tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    path.write_text(gate_lines(1) + "y" * (2 << 20))
    load(store, example, path)
    path.write_text(gate_lines(1) + "y" * (3 << 20) + "\n" + gate_lines(2))
    (report,) = load(store, example, path)
    assert (report.line_count, report.row_count, report.reject_count) == (4, 2, 1)
    assert "line of 3145728 bytes" in report.message


@pytest.mark.parametrize(
    ("name", "stated", "message"),
    [
        ("nope", {}, "no source nope; there are auto, gate_log"),
        ("gate_log", {"door": "x"}, "no option door; it has cluster"),
    ],
)
def test_wrong_use_reads_nothing(
    name: str, stated: dict[str, str], message: str, store: Store, example: Catalog, tmp_path: Path
) -> None:
    path = tmp_path / "a.log"
    path.write_text(gate_lines(1))
    with pytest.raises(InputError, match=message):
        list(ingest(store, example, name, [path], stated, {}, EPOCH))
    with pytest.raises(InputError, match="no such file or folder"):
        list(ingest(store, example, "gate_log", [path, tmp_path / "b"], {}, {}, EPOCH))
    assert one(store, "SELECT count(*) FROM lake.ingest_file") == 0


def test_folders_take_what_looks_right(store: Store, example: Catalog, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "a.log").write_text(gate_lines(2))
    (folder / "README").write_text("about\n")
    (folder / ".hidden").write_text(gate_lines(3))
    states = {Path(r.path).name: r.state for r in load(store, example, folder)}
    assert states == {"README": "ignored", "a.log": "read"}


def test_build_recomputes_only_what_changed_and_equals_a_full_one(
    store: Store, example: Catalog, tmp_path: Path
) -> None:
    lines = gate_lines(24 * 6).splitlines(keepends=True)
    first, late = tmp_path / "a.log", tmp_path / "late.log"
    first.write_text("".join(lines[:30] + lines[40:]))
    late.write_text("".join(lines[30:40]))
    load(store, example, first)
    assert [(b.ranges, b.changed_days) for b in build(store, example, {})] == [(1, 6)]
    assert [(b.ranges, b.changed_days) for b in build(store, example, {})] == [(0, 0)]
    load(store, example, late)
    assert [(b.ranges, b.changed_days) for b in build(store, example, {})] == [(1, 1)]
    detect(store, example, {}, EPOCH)
    with fresh(tmp_path / "full", example) as full:
        whole = tmp_path / "whole.log"
        whole.write_text("".join(lines))
        load(full, example, whole)
        build(full, example, {})
        detect(full, example, {}, EPOCH)
        for name in ("passage", "passage_day", "finding"):
            assert hashes(full, example)[name] == hashes(store, example)[name]


def test_large_inputs_are_computed_in_shorter_ranges(
    store: Store, example: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """24 rows a day: two days fit into 60 rows, and a day with more than that stands alone."""
    log = tmp_path / "a.log"
    log.write_text(gate_lines(24 * 6))
    load(store, example, log)
    monkeypatch.setattr(ranges_module, "RANGE_BYTES", 0)
    monkeypatch.setattr(ranges_module, "RANGE_ROWS", 60)
    assert [(b.ranges, b.changed_days) for b in build(store, example, {})] == [(3, 6)]
    days = [(FIRST + timedelta(days=n)).date() for n in range(5)]
    counts = dict(zip(days, (10, 40, 20, 900, 5), strict=True))
    cut = ranges_module.cut_by_rows(
        ranges_module.Range(days[0], days[4] + timedelta(days=2)), counts
    )
    assert [(r.end - r.start).days for r in cut] == [2, 1, 1, 2]


def test_files_hold_the_rows_even_after_deletions(
    store: Store, example: Catalog, tmp_path: Path
) -> None:
    path = tmp_path / "a.log"
    path.write_text(gate_lines(48))
    load(store, example, path)
    store.connection.execute("DELETE FROM lake.passage WHERE person = 'person1'")
    assert any(deletes for _, deletes in store.files("passage"))
    table = example.tables["passage"]
    alone = files_sql(table, store.files("passage"))
    names = ", ".join(table.column_names)
    assert one(store, f"SELECT count(*) FROM ({alone})") == 32
    assert (
        one(store, f"SELECT count(*) FROM ({alone} EXCEPT SELECT {names} FROM lake.passage)") == 0
    )
    store.settle(["passage"])
    assert not any(deletes for _, deletes in store.files("passage"))
    assert one(store, f"SELECT count(*) FROM ({files_sql(table, store.files('passage'))})") == 32


def test_files_that_begin_alike_for_long_stay_apart(
    store: Store, example: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_module, "BLOCK_BYTES", 64)
    path = tmp_path / "a.log"
    content = gate_lines(20)
    path.write_text(content)
    load(store, example, path)
    path.write_text(content[:300])  # the same file, shrunk
    load(store, example, path)
    path.write_text(content[:290] + "\n")  # and otherwise again: its cut end is taken back
    load(store, example, path)
    assert one(store, "SELECT count(*) FROM lake.passage") == 20
    assert one(store, "SELECT count(DISTINCT file_id) FROM lake.ingest_file") == 3


def test_two_ingests_of_one_file_count_its_rows_once(
    store: Store, example: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.log"
    path.write_text(gate_lines(30))

    def look_up_and_lose_the_race(*args: object) -> list[Found]:
        found = known_module.find_all(*args)  # type: ignore[arg-type]  # passed on
        monkeypatch.undo()
        with Store(store.root, memory_mb=512) as other:
            load(other, example, path)
        return found

    monkeypatch.setattr(run_module, "find_all", look_up_and_lose_the_race)
    (report,) = load(store, example, path)
    assert (report.row_count, report.repeat_count) == (30, 0)
    assert one(store, "SELECT row_count FROM lake.ingest_file") == 30


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_what_stands_before_the_damage_is_read(
    pack: object, store: Store, example: Catalog, tmp_path: Path
) -> None:
    assert callable(pack)
    path = tmp_path / "cut"
    content = gate_lines(3000, 60).encode()
    path.write_bytes(pack(content)[:-4])
    (report,) = load(store, example, path)
    assert report.row_count == 3000
    assert "cut or damaged" in report.message
    path.write_bytes(gzip.compress(content) + b"no gzip")
    (report,) = load(store, example, path)
    assert report.row_count == 3000
    assert "cut or damaged" in report.message


def test_a_packed_file_of_one_byte_grows_to_the_whole(
    store: Store, example: Catalog, tmp_path: Path
) -> None:
    path = tmp_path / "a.gz"
    whole = gzip.compress(gate_lines(5).encode())
    for size in (1, 3, len(whole)):
        path.write_bytes(whole[:size])
        (report,) = load(store, example, path)
    assert (report.row_count, report.message) == (5, "")
    assert one(store, "SELECT count(*) FROM lake.ingest_file") == 1
    assert one(store, "SELECT count(*) FROM lake.reject") == 0


def test_names_that_are_no_utf_8(store: Store, example: Catalog, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    path = folder / os.fsdecode(b"gate\xff.log")
    path.write_text(gate_lines(2))
    for paths in ([path], [folder]):
        (report,) = load(store, example, *paths)
        assert (report.path, report.row_count) == (f"{folder}/gate\\xff.log", 2)
    with pytest.raises(InputError, match=r"no\\xff"):
        load(store, example, tmp_path / os.fsdecode(b"no\xff"))


def test_a_store_of_the_future_is_refused(store: Store, example: Catalog) -> None:
    store.connection.execute("INSERT INTO lake.meta.store_format VALUES (99)")
    with pytest.raises(StoreError, match="has format 99; this Fleetmark reads up to 1"):
        Store(store.root, read_only=True)


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_other_peoples_files_are_no_store(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    if kind == "file":
        path.write_text("mine")
    else:
        path.mkdir()
        (path / "mine").write_text("mine")
    with pytest.raises(StoreError, match=r"is a file|holds other files"):
        Store(path)


WRITER = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from test_pipeline import *
from conftest import _load_package, EXAMPLE
from fleetmark.catalog import catalog_of
parts = [_load_package(EXAMPLE / n, "example_" + n) for n in ("ingest", "models", "detectors")]
with fresh(Path({store!r}), catalog_of(*parts)) as store:
    load(store, catalog_of(*parts), *(Path(p) for p in sys.argv[1:]))
"""


def test_two_processes_write_at_once_and_nothing_is_lost(tmp_path: Path, example: Catalog) -> None:
    lines = gate_lines(400, 60).splitlines(keepends=True)
    paths = []
    for n in range(16):
        paths.append(tmp_path / f"{n}.log")
        paths[-1].write_text("".join(lines[n * 25 : (n + 1) * 25]))
    program = WRITER.format(tests=str(Path(__file__).parent), store=str(tmp_path / "store"))
    halves = [paths[:9], paths[7:]]
    processes = [
        subprocess.Popen([sys.executable, "-c", program, *map(str, half)], stderr=subprocess.PIPE)
        for half in halves
    ]
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors.decode()
    with Store(tmp_path / "store", read_only=True) as store:
        assert one(store, "SELECT count(*) FROM lake.passage") == 400


def test_the_record_of_a_file_is_its_table() -> None:
    assert tuple(FileRecord.__dataclass_fields__) == INGEST_FILE.column_names
