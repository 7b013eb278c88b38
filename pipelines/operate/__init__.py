"""What a person or a schedule does with a pipeline: its live model, promotion, rollback."""
