"""Models: one table per file, SQL unless SQL cannot say it."""
