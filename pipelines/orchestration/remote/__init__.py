"""The root on an object store: its lock, local copies for nodes, listings that are compared, leftovers."""
