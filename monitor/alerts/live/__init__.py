"""Evaluation inside of transactions: of pushes, of stored snapshots, of agents that are offline."""
