"""Figures of inference servers."""
