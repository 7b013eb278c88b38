"""Generators of the sample data; what they write lands in `data/samples` and is never committed."""
