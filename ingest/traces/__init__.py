"""Public traces of GPU clusters, as their owners released them."""
