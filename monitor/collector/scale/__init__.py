"""Scaling by the agent: how many containers of a group run on its host."""
