"""Collectives and training ranks: NCCL, PyTorch, traces."""
