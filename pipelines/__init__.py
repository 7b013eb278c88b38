"""When and where nodes run: plan what is due, wire it, run it, show it."""
