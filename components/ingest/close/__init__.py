"""Adds up what the work units report: manifest, quarantine, duplicates, reuse of earlier spans."""
