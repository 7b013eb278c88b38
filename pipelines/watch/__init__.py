"""What a person or a monitor sees of pipelines: their runs, their state, their logs. It reads, and changes nothing."""
