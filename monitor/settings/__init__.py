"""What an organization's admins set: keys, users, limits."""
