"""Failures of jobs: their causes, what they cost, how long jobs last, and advice that follows."""
