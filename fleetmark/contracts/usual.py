"""A source against its own last seven days: does it bring as many rows, in the same shape?

Earlier hours come from `contract_profile`, so nothing is read twice.
"""

from __future__ import annotations

import polars as pl

from fleetmark.contracts.profile import Window
from fleetmark.store import Store
from fleetmark.table import Table

# Hours of history before a rate is judged: a day, so that a daily rhythm is in it.
LEAST_HOURS = 24
# A source arrives as things happen where the hour of its last row was judged within so many hours.
PROMPT_HOURS = 24

_SQL = f"""
WITH here AS (SELECT source, start_ts, row_count, filled_column_count, $3::TIMESTAMP AS judged_at FROM profiled),
past AS (
    SELECT source, start_ts, row_count, filled_column_count, judged_at FROM lake.contract_profile
    WHERE table_name = $1 AND scope_kind = 'hour'
        AND start_ts >= $2::TIMESTAMP - INTERVAL 7 DAY AND start_ts < $2::TIMESTAMP
),
seen AS (SELECT * FROM here UNION ALL SELECT * FROM past),
span AS (
    SELECT source, min(start_ts) AS first, max(start_ts) FILTER (row_count > 0) AS last,
        arg_max(judged_at, start_ts) FILTER (row_count > 0) AS judged_at
    FROM seen GROUP BY source
),
-- A source is quiet from its last row on, for as long as its usual week still holds it; history that was
-- read in long after it happened is not a source that has fallen silent.
hour AS (
    SELECT source, unnest(generate_series(
        first,
        CASE WHEN judged_at - last <= INTERVAL {PROMPT_HOURS} HOUR
            THEN least(last + INTERVAL 7 DAY, date_trunc('hour', $3::TIMESTAMP) - INTERVAL 1 HOUR)
            ELSE last END,
        INTERVAL 1 HOUR)) AS start_ts
    FROM span
),
filled AS (
    SELECT source, start_ts, coalesce(row_count, 0) AS row_count, filled_column_count
    FROM hour LEFT JOIN seen USING (source, start_ts)
),
judged AS (
    SELECT source, start_ts, row_count, filled_column_count,
        CASE WHEN count(*) OVER week >= {LEAST_HOURS} THEN median(row_count) OVER week END AS usual,
        CASE WHEN count(filled_column_count) OVER week >= {LEAST_HOURS}
            THEN min(filled_column_count) OVER week END AS fewest,
        max(filled_column_count) OVER week AS most
    FROM filled
    WINDOW week AS (
        PARTITION BY source ORDER BY start_ts
        RANGE BETWEEN INTERVAL 7 DAY PRECEDING AND INTERVAL 1 HOUR PRECEDING
    )
)
SELECT source, strftime(start_ts, '%Y-%m-%dT%H:00:00Z') AS scope, 'hour' AS scope_kind, start_ts, row_count,
    row_count / nullif(usual, 0) AS rate_ratio,
    CASE WHEN filled_column_count < fewest THEN filled_column_count - fewest
        WHEN filled_column_count > most AND fewest IS NOT NULL THEN filled_column_count - most
        ELSE 0 * (filled_column_count - fewest) END AS filled_column_change
FROM judged
WHERE start_ts >= date_trunc('hour', $2::TIMESTAMP) AND (row_count > 0 OR usual > 0)
ORDER BY source, start_ts
"""


def against_usual(
    store: Store, table: Table, profiled: pl.DataFrame, window: Window
) -> pl.DataFrame:
    """The profile with `rate_ratio` and `filled_column_change`, and a row for each hour without rows
    of a source that usually has some and whose rows arrive as things happen.

    `rate_ratio`: rows over the median of the source's hours in the seven days before, NULL with less
    than 24 of them or where that median is 0. `filled_column_change`: columns with values beyond the
    most, or (negative) short of the fewest, that an hour of those days had.
    """
    store.connection.register("profiled", profiled.to_arrow())
    usual = store.connection.execute(_SQL, [table.name, window.start, window.end]).pl()
    store.connection.unregister("profiled")
    keys = ["source", "scope"]
    kept = profiled.drop("row_count", "scope_kind", "start_ts")
    return usual.join(kept, on=keys, how="left", maintain_order="left")
