"""Training jobs' own logs."""
