"""Sick GPUs, links and nodes."""
