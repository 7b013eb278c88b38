"""Lists and identifies the input files: spans, source, columns, content hashes."""
