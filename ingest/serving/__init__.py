"""Logs of inference servers."""
