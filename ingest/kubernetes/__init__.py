"""Kubernetes and the schedulers and job managers that run on it."""
