"""Reads, checks and encodes the records of one work unit, and writes its shards."""
