"""Plans what is due, builds the TFX pipeline, runs it, and records what happened."""
