"""Notifies a command or a webhook of what became of a pipeline.

    journal of runs ─┐   rules: what is new?        state: what was notified, deliver: command, webhook,
    late ticks ──────┼─► failed, recovered, … ────► outbox ──────────────────► with retries within a time limit
    dead retrainings ┘                              (one file per pipeline)

A notification is in the outbox before it is sent, and leaves it once a receiver has taken it: a process that is killed
in between sends it again, with the same id.
"""
