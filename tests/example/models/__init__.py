"""A throw-away source: what it takes to add one."""
