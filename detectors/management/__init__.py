"""Changes around data: rights, routes, logs, pods."""
