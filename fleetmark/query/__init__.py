"""SQL from people: an allow-list on the parse tree, then a worker process that can only read.

guard      which tables a statement reads, or its refusal
worker     the process that runs it: no catalog, no network, no write, bounded resources (`confine`)
process    that process seen from outside; `pool` shares several among callers
snapshot   the Parquet files that make up the tables, and which rows a caller may see
selection  rows of one table by its contract, as SQL
answer     result sets in batches; `formats` writes them
"""
