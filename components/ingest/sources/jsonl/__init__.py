"""JSON lines: parsing, rows."""
