"""Real public logs, each folder with its origin and licence in SOURCES.md."""
