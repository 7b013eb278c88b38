"""Raw files to sharded TFRecords, every one accounted for.

source ─► manifest (path, size, sha256) ─► split and shard plan ─► Beam: one element a shard ─► shards, quarantine
"""
