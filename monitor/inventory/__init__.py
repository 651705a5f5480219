"""Containers, pods and nodes as last pushed, and their summary."""
