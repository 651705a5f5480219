"""The loop: what it reads of due policies, what it writes, and what follows for agents."""
