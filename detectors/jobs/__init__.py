"""Rules over what jobs and their allocations did."""
