"""The planner's views: queue waits, use, quota, fairness, fragmentation."""
