"""Dataflow jobs built on this machine, without an account and without a network."""
