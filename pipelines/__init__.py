"""The commands: plan what is due, run it, and show the result."""
