"""Generators of the sample data. Their output goes to `data/samples` and is never committed."""
