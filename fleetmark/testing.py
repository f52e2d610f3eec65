"""What tests of definitions stand on: cases on disk, run without a store.

A case is a folder (docs/adding.md). CSV cells: empty is NULL, `''` the empty string, lists are JSON.
`python -m fleetmark.testing accept DIR…` writes what a case gives now; read the diff before commit.
"""

from __future__ import annotations

import csv
import json
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from fleetmark.catalog import Catalog, load_catalog
from fleetmark.model import Model
from fleetmark.pipeline.build import check_schema
from fleetmark.pipeline.detect import check_detected, finding_sql
from fleetmark.pipeline.files import Content, split_lines
from fleetmark.pipeline.load import options_of
from fleetmark.pipeline.thresholds import resolved
from fleetmark.pipeline.write import gate
from fleetmark.source import REJECTS_SCHEMA, Context, Parsed, Source
from fleetmark.table import TYPES, Table, quote

EPOCH = datetime(2026, 1, 1)  # noqa: DTZ001 - all times are UTC without zone
REPOSITORY = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Case:
    """A case folder: `case.toml` (input, options, params, tolerance), all optional."""

    folder: Path
    options: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    named_input: str | None = None
    tolerance: float = 1e-9

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def input(self) -> Path:
        """The source's input file."""
        if self.named_input:
            return REPOSITORY / self.named_input
        return next(p for p in sorted(self.folder.iterdir()) if p.stem.startswith("input"))


def load_case(folder: Path) -> Case:
    """Read `case.toml` of a case folder."""
    path = folder / "case.toml"
    values = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return Case(
        folder,
        {k: str(v) for k, v in values.get("options", {}).items()},
        values.get("params", {}),
        values.get("input"),
        values.get("tolerance", 1e-9),
    )


def cases_of(root: Path, kind: str, name: str) -> list[Case]:
    """The cases of one definition below `root` (tests/cases)."""
    folder = root / kind / name
    return [load_case(p) for p in sorted(folder.iterdir())] if folder.is_dir() else []


def parse_file(source: Source, path: Path, **options: str) -> Parsed:
    """Run `source` over the whole of `path` in one chunk."""
    values = options_of(source, path, options, {})
    if source.reads == "frame":
        return source.parse(pl.scan_parquet(path), Context(path.name, values))  # type: ignore[arg-type]  # by `reads`
    content = Content(path)
    data = content.read(1 << 30)
    content.close()
    if source.reads == "document":
        return source.parse(data, Context(path.name, values))  # type: ignore[arg-type]  # by `reads`
    lines, damaged = split_lines(data, 1)
    first = data.split(b"\n", 1)[0].rstrip(b"\r").decode("utf-8", "replace")
    parsed = source.parse(
        lines,  # type: ignore[arg-type]  # by `reads`
        Context(path.name, values, first, at_end=True),
    )
    refused = pl.concat([damaged, parsed.rejects.select(*REJECTS_SCHEMA)])
    return Parsed(parsed.tables, refused, parsed.skipped)


def source_rows(source: Source, parsed: Parsed) -> tuple[dict[str, pl.DataFrame], pl.DataFrame]:
    """Rows by table as the store would take them (contract applied), and all rejects."""
    rows: dict[str, pl.DataFrame] = {}
    refused = [parsed.rejects.select(*REJECTS_SCHEMA)]
    for table in source.outputs:
        part = parsed.tables.get(table.name)
        if part is not None:
            frame = part.collect() if isinstance(part, pl.LazyFrame) else part
            gated = gate(table.with_provenance(), frame, "case", _no_lines())
            rows[table.name] = gated.rows
            refused.append(gated.rejects)
    return rows, pl.concat(refused)


def _no_lines() -> pl.DataFrame:
    return pl.DataFrame(schema={"line_no": pl.Int64(), "text": pl.String()})


def read_rows(path: Path, table: Table) -> pl.DataFrame:
    """A CSV of some of a table's columns, typed by its contract."""
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.reader(file)
        names = next(reader)
        cells = list(reader)
    types = {name: table.column(name).type for name in names}
    data = {name: [_value(row[n], types[name]) for row in cells] for n, name in enumerate(names)}
    return pl.DataFrame(data, schema={name: TYPES[kind] for name, kind in types.items()})


def _value(cell: str, kind: str) -> Any:  # noqa: ANN401 - a value of any column type
    if cell == "":
        return None
    if kind.endswith("[]"):
        return json.loads(cell)
    return _PARSERS.get(kind, int)(cell)


_PARSERS: Mapping[str, Callable[[str], Any]] = {
    "VARCHAR": lambda cell: "" if cell == "''" else cell,
    "BOOLEAN": lambda cell: {"true": True, "false": False}[cell.lower()],
    "TIMESTAMP": lambda cell: datetime.fromisoformat(cell.removesuffix("Z")),
    "DATE": date.fromisoformat,
    "FLOAT": float,
    "DOUBLE": float,
}


def write_rows(path: Path, rows: pl.DataFrame) -> None:
    """The inverse of `read_rows`."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(rows.columns)
        for row in rows.iter_rows():
            writer.writerow([_cell(value) for value in row])


def _cell(value: Any) -> str:  # noqa: ANN401 - a value of any column type
    if value is None:
        return ""
    if value == "":
        return "''"
    if isinstance(value, list):
        return json.dumps(value)
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, datetime | date) else str(value)


def differences(got: pl.DataFrame, want: pl.DataFrame, tolerance: float) -> list[str]:
    """What is wrong with `got`, on the columns of `want`, rows in any order."""
    got = got.select(want.columns)
    keys = [pl.col(c).cast(pl.String) if not isinstance(t, pl.List) else
            pl.col(c).list.eval(pl.element().cast(pl.String)).list.join(",")
            for c, t in want.schema.items() if not t.is_float()]  # fmt: skip
    # Last, as they may differ a little; without them rows whose grain holds a ratio have no order.
    keys += [pl.col(c).round_sig_figs(6) for c, t in want.schema.items() if t.is_float()]
    got, want = (f.sort(keys, nulls_last=True) if keys else f for f in (got, want))
    if got.height != want.height:
        return [f"{got.height} rows instead of {want.height}"]
    problems = []
    for name in want.columns:
        for row, (a, b) in enumerate(zip(got[name], want[name], strict=True)):
            if not _equal(a, b, tolerance):
                problems.append(f"row {row + 1}, {name}: {a!r} instead of {b!r}")
    return problems


def _equal(a: Any, b: Any, tolerance: float) -> bool:  # noqa: ANN401 - values of any column type
    if isinstance(a, float) and isinstance(b, float):
        return abs(a - b) <= tolerance * max(1.0, abs(b))
    if isinstance(a, pl.Series) and isinstance(b, pl.Series):
        return a.to_list() == b.to_list()
    return bool(a == b)


def compute_case(catalog: Catalog, model: Model, case: Case) -> pl.DataFrame:
    """A model's (or detector's) output over the CSV inputs of a case; missing inputs are empty."""
    inputs = {}
    for name in model.inputs:
        path = case.folder / f"{name}.csv"
        table = catalog.tables[name]
        rows = read_rows(path, table) if path.exists() else table.empty()
        inputs[name] = complete(table, rows)
    return compute(catalog, model, inputs, case.params)


def complete(table: Table, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with every column of the contract, in order; those not given are NULL (lists empty)."""
    absent = [
        (pl.lit(None, dtype=TYPES[c.type]) if not c.type.endswith("[]")
         else pl.lit([], dtype=TYPES[c.type])).alias(c.name)
        for c in table.columns if c.name not in rows.columns
    ]  # fmt: skip
    return rows.with_columns(absent).select(table.column_names)


def derive(catalog: Catalog, frames: dict[str, pl.DataFrame], table: str) -> pl.DataFrame:
    """Rows of a table: those in `frames`, else computed from them by its model, else none.

    What was computed is added to `frames`.
    """
    if table not in frames:
        model = catalog.models.get(table)
        if model is None:
            return catalog.tables[table].empty()
        inputs = {name: derive(catalog, frames, name) for name in model.inputs if name != table}
        if table in model.inputs:
            inputs[table] = catalog.tables[table].empty()
        frames[table] = compute(catalog, model, inputs, {})
    return complete(catalog.tables[table], frames[table])


def compute(
    catalog: Catalog, model: Model, inputs: Mapping[str, pl.DataFrame], params: Mapping[str, Any]
) -> pl.DataFrame:
    """Run a model over frames, on a connection of its own, and check its contract."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, rows in inputs.items():
            connection.register(f"frame_{name}", rows.to_arrow())
            connection.execute(f"CREATE TEMP VIEW {quote(name)} AS SELECT * FROM frame_{name}")
        relation = model.compute(connection, resolved(model, params))
        detector = catalog.detectors.get(model.name)
        if detector is not None and detector.model is model:
            check_detected(relation, model.name)
            relation = relation.query("detected", finding_sql(detector, relation.columns, EPOCH))
        check_schema(relation, model.output, model.name)
        return relation.pl()


def _accept(folders: Iterable[Path]) -> None:
    catalog = load_catalog()
    for folder in folders:
        kind, name = folder.parts[-3], folder.parts[-2]
        case = load_case(folder)
        if kind != "sources":
            model = catalog.models[name] if kind == "models" else catalog.detectors[name].model
            write_rows(folder / "expected.csv", compute_case(catalog, model, case))
            continue
        source = catalog.sources[name]
        rows, refused = source_rows(source, parse_file(source, case.input, **case.options))
        for table, frame in rows.items():
            target = "expected.csv" if len(source.outputs) == 1 else f"{table}.csv"
            write_rows(folder / target, frame.drop("file_id"))
        write_rows(folder / "rejects.csv", refused.select("line_no", "reason"))


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] != "accept":
        sys.exit("usage: python -m fleetmark.testing accept DIR…")
    _accept(Path(argument).resolve() for argument in sys.argv[2:])
