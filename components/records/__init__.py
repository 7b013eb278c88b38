"""The on-disk contract of records, read by every node: manifest, TFRecord framing, checksums, schema, roles, seals."""
