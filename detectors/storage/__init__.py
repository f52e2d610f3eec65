"""Weights that leave."""
