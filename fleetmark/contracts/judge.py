"""Great Expectations over profiles: an ephemeral context, a suite per table, Data Docs on demand.

The library (`pip install fleetmark[contracts]`) takes 2 to 3 s to import and brings pandas: only
`fleetmark contracts` comes here.
"""

from __future__ import annotations

import math
import os
import shutil
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from fleetmark.contracts.suite import Expectation
from fleetmark.errors import InputError, ServiceError
from fleetmark.spared import allow_pandas

# Great Expectations' own words for how bad a failure is.
_SEVERITY = {"error": "critical", "warning": "warning"}
_RESULT: Mapping[str, object] = {
    "result_format": "COMPLETE",
    "unexpected_index_column_names": ["scope"],
}


class Judge:
    """One context; `judge` a table's profile as often as there are tables, then write the docs."""

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

    def judge(
        self, table: str, profiled: pl.DataFrame, expectations: Sequence[Expectation]
    ) -> pl.DataFrame:
        """Rows of `contract_result` but for table_name and judged_at.

        Expectations of measures that the profile does not have are passed over.
        """
        held = [one for one in expectations if one.measure in profiled.columns]
        measures = profiled.select(pl.col(one.measure).cast(pl.Float64) for one in held)
        scope = profiled.select(pl.concat_str("source", pl.lit(" "), "scope").alias("scope"))
        validation = self._validation(table, held)
        columns = pl.concat([scope, measures], how="horizontal").to_dict(as_series=False)
        frame = self._pandas.DataFrame(columns)
        answer = validation.run(batch_parameters={"dataframe": frame}, result_format=_RESULT)
        failed = {one.expectation_config.kwargs["column"]: _failed(one) for one in answer.results}
        return pl.concat(
            profiled.select(
                "source",
                "scope",
                pl.lit(one.measure).alias("expectation"),
                pl.lit(one.severity).alias("severity"),
                pl.when(measures[one.measure].is_not_null())
                .then(~scope["scope"].is_in(failed[one.measure]))
                .alias("success"),
                measures[one.measure].alias("observed"),
                pl.lit(one.wanted).alias("wanted"),
            )
            for one in held
        )

    def _validation(self, table: str, expectations: Sequence[Expectation]) -> Any:  # noqa: ANN401 - the library has no types
        gx = self._gx
        between = gx.expectations.ExpectColumnValuesToBeBetween
        suite = gx.ExpectationSuite(
            name=table,
            expectations=[
                between(
                    column=one.measure, min_value=_limit(one.low), max_value=_limit(one.high),
                    severity=_SEVERITY[one.severity], notes=one.why,
                )
                for one in expectations
            ],
        )  # fmt: skip
        asset = self._source.add_dataframe_asset(table)
        return self._context.validation_definitions.add(
            gx.ValidationDefinition(
                name=table,
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
    """Scopes that did not meet an expectation. Raises ServiceError when it could not be judged."""
    if (result.exception_info or {}).get("raised_exception"):
        raise ServiceError(
            f"Great Expectations cannot judge {result.expectation_config.kwargs['column']}: "
            f"{result.exception_info.get('exception_message')}"
        )
    return [row["scope"] for row in result.result.get("unexpected_index_list") or []]
