"""The base model of a warm start: its artifact, its weights, and their way into a new model."""
