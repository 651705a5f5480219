"""Postgres: the pool, transactions, wake-ups and migrations."""
