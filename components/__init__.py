"""What runs inside a node: from raw bytes (`ingest`) to a served model (`pusher`)."""
