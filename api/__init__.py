"""The read-only API over the store, and the page it serves."""

from .app import create_app

__all__ = ["create_app"]
