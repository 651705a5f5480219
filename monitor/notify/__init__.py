"""Tell people and programs of alerts: channels, the outbox, its delivery."""
