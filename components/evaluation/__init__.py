"""Decides whether data may be trained on and whether a model may be served: gate, metric thresholds, baseline."""
