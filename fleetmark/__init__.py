"""Fleetmark: what a GPU fleet's own logs say about useful work, drag and theft.

The core. It imports none of the folders `ingest`, `models`, `detectors`, `api`, `dashboards`; they
are installed as `fleetmark.ingest` and so on, and import only this package and their siblings.
"""

__version__ = "0.1.0"
