"""Findings for planners: lemon nodes, burnt failure budgets, starved quotas, burning objectives."""
