"""What spans features: deleting an agent, agents that turn offline."""
