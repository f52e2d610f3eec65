"""What GPUs there are, who holds them, what is free: capacity, allocation, waiting demand."""
