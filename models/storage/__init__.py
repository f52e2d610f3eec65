"""Who read which share of what."""
