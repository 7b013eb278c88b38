"""Trains the model of a Task."""
