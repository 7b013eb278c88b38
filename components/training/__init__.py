"""The Trainer: reads the records, fits the model of a Task, keeps its best epoch and exports it."""
