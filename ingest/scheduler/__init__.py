"""Job records of schedulers."""
