"""Alert rules, their evaluation inside of pushes, and the alerts that they fire."""
