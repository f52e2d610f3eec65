"""Which rank, link or host is slow, missing or hung, and why."""
