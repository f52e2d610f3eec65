"""SQL from people: an allow-list on the parse tree, then a worker process that can only read.

`guard` says which tables a statement reads, or refuses it. `worker` is the process that runs it with
no catalog, no network, no write and bounded resources; `pool` starts, feeds, kills and replaces
workers. `snapshot` lists the Parquet files that make up the tables; `answer` writes result sets.
"""
