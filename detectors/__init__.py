"""Detectors: one rule per file, named by its id, each with a rule card."""
