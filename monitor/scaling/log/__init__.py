"""The decision log: an append-only chain of hashes for each organization."""
