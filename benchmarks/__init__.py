"""Benchmarks and chaos: the service with servers of its own, on this machine's loopback."""
