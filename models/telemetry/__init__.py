"""What GPUs, links and nodes do and suffer."""
