"""Sources: one log format per file, rows of tables out."""
