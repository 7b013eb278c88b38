"""Divides the data into work units, and runs them in a pool of processes."""
