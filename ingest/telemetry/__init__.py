"""GPUs: exporters, tools and kernels."""
