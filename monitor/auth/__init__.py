"""Identity: who asks, what they may, and how they prove it."""
