"""From an agent's batch of lines to hot rows: checked, counted, stored once."""
