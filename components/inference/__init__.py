"""Batch inference: a served model on raw data of any size, on every runner; each record is predicted or quarantined."""
