"""Jobs, allocations and how much work they did."""
