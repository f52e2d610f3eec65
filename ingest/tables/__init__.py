"""Contracts of the tables that sources write, one per file."""
