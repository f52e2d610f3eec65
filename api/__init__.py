"""The read-only API over the store, and the page it serves."""
