"""Measures the input pipeline on the user's own records: its speed, its slowest stage, and the fastest settings.

Examples artifact ─► jobs, each in a fresh worker process ─► cost per stage, device utilisation ─► one-sentence verdict
"""
