"""Agents: register and list."""
