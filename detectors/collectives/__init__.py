"""Slow ranks, slow links and hangs."""
