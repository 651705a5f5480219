"""Metric queries: the values of one selector, now or over a range."""
