"""Penstock's metadata as a run reads and writes it: ML Metadata, seals, the live model, accepted findings."""
