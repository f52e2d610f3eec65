"""Real services that tests start, on loopback and ports of their own."""
