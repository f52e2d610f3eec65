"""Data contracts judged after the fact: a profile of what was stored, against expectations of it.

Each batch has passed its contract's own gate when it was written (`fleetmark.pipeline.write`). Here
DuckDB computes one profile row per table, source and closed hour (or file), and Great Expectations
judges that row: it never sees the rows themselves.
"""
