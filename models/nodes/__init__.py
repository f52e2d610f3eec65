"""Nodes: outages, availability, failure rates, lemons and spares."""
