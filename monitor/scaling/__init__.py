"""Scaling policies, the loop that follows them, and the log of its decisions."""
