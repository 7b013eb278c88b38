"""Retraining on a schedule: when a tick is due, what becomes of it, and the process that starts it."""
