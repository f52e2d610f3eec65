"""A seeded fleet with known truth that writes raw logs."""
