"""Logs: stored as agents ship them, kept compressed, and searched.

The store behind the routes has four verbs: ``append`` (``append.py``), ``search``
(``searches.py``), ``drop_before`` and ``usage`` (``store.py``).
"""
