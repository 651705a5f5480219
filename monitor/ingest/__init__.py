"""What an agent pushes: checked, turned into samples, stored in one transaction."""
