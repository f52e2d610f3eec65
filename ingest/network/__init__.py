"""Sources of network flows."""
