"""Access logs of storage, and what lies there."""
