"""Parquet files: decoding in a helper process, rows."""
