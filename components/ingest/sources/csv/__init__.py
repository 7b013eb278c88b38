"""CSV files: records, cells, header, rows."""
