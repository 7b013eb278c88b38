"""Raw files to sharded TFRecords, with every record accounted for.

data ─► survey (path, size and identity of each file) ─► work units ─► Beam: one element per unit ─► shards ─► manifest
"""
