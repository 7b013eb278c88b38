"""Curated schemas of the sample data, one text proto per task."""
