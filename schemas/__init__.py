"""What the data must be: one curated schema a task, as text protos next to this file."""
