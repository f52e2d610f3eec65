"""Public traces: read a download, recompute what was published about it, say which figures match.

Per trace one SQL file (id, scope, metric, found) over the tables that sources and models fill;
`published.toml` holds the figures with their definition: filter, denominator, percentile method.
"""
