"""Great Expectations over profiles: an ephemeral context, a suite, Data Docs on demand.

The library (`pip install fleetmark[contracts]`) takes 2 to 3 s to import and brings pandas: only
`fleetmark contracts` comes here.
"""

from __future__ import annotations

import math
import os
import shutil
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from fleetmark.errors import InputError, ServiceError
from fleetmark.spared import allow_pandas

# Great Expectations' own words for how bad a failure is.
_SEVERITY = {"error": "critical", "warning": "warning"}
_LABEL = "row"
_RESULT: Mapping[str, object] = {
    "result_format": "COMPLETE",
    "unexpected_index_column_names": [_LABEL],
}


class Judge:
    """One context; `judge` once for all tables, or once for each, then write the docs."""

    def __init__(self) -> None:
        allow_pandas()
        # It must stand before the import: nothing is reported to anyone.
        os.environ.setdefault("GX_ANALYTICS_ENABLED", "False")
        try:
            with warnings.catch_warnings():
                # Its imports use names that Python calls deprecated.
                warnings.simplefilter("ignore", DeprecationWarning)
                import great_expectations as gx  # noqa: PLC0415 - an extra, 2 s to import
                import pandas as pd  # noqa: PLC0415 - comes with it
        except ImportError:
            raise InputError(
                "Great Expectations is not installed: pip install 'fleetmark[contracts]'"
            ) from None
        self._gx: Any = gx
        self._pandas: Any = pd
        self._context: Any = self._gx.get_context(mode="ephemeral")
        self._context.variables.progress_bars = {"globally": False}
        self._source: Any = self._context.data_sources.add_pandas("profiles")

    def judge(self, name: str, asked: pl.DataFrame) -> pl.Series:
        """Which of `asked` (fleetmark.contracts.suite.ASKED) was met; NULL where nothing was observed.

        Rows of one `column` are judged together, as a column of one frame: the library takes 20 ms and more
        for each expectation, and next to nothing for each row. Raises ServiceError.
        """
        label = asked.select(
            pl.concat_str("table_name", "source", "scope", "expectation", separator=" ")
        )
        (labels,) = label.get_columns()
        limits = asked.unique("column", maintain_order=True)
        spread = asked.select(
            labels.alias(_LABEL),
            *(
                pl.when(pl.col("column") == column).then("observed").alias(column)
                for column in limits["column"]
            ),
        )
        frame = self._pandas.DataFrame(spread.to_dict(as_series=False))
        answer = self._validation(name, limits).run(
            batch_parameters={"dataframe": frame}, result_format=_RESULT
        )
        failed = [row for one in answer.results for row in _failed(one)]
        return asked.select(
            success=pl.when(pl.col("observed").is_not_null()).then(~labels.is_in(failed))
        ).to_series()

    def _validation(self, name: str, limits: pl.DataFrame) -> Any:  # noqa: ANN401 - the library has no types
        gx = self._gx
        between = gx.expectations.ExpectColumnValuesToBeBetween
        suite = gx.ExpectationSuite(
            name=name,
            expectations=[
                between(
                    column=one["column"], min_value=_limit(one["low"]), max_value=_limit(one["high"]),
                    severity=_SEVERITY[one["severity"]], notes=one["why"],
                )
                for one in limits.iter_rows(named=True)
            ],
        )  # fmt: skip
        asset = self._source.add_dataframe_asset(name)
        return self._context.validation_definitions.add(
            gx.ValidationDefinition(
                name=name,
                data=asset.add_batch_definition_whole_dataframe("profile"),
                suite=self._context.suites.add(suite),
            )
        )

    def write_docs(self, folder: Path) -> Path:
        """Data Docs of everything judged, copied into `folder`; the page to open."""
        (index,) = self._context.build_data_docs().values()
        shutil.copytree(Path(index.removeprefix("file://")).parent, folder, dirs_exist_ok=True)
        return folder / "index.html"


def _limit(value: float) -> float | None:
    return None if math.isinf(value) else value


def _failed(result: Any) -> list[str]:  # noqa: ANN401 - the library has no types
    """Rows that did not meet an expectation. Raises ServiceError when it could not be judged."""
    if (result.exception_info or {}).get("raised_exception"):
        raise ServiceError(
            f"Great Expectations cannot judge {result.expectation_config.kwargs['column']}: "
            f"{result.exception_info.get('exception_message')}"
        )
    return [row[_LABEL] for row in result.result.get("unexpected_index_list") or []]
