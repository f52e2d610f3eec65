"""Formats of logs: text, JSON and messages to typed Parquet, and the same through the `fleetmark` command."""
