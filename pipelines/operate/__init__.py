"""Operates a pipeline over time: retraining when there is new data."""
