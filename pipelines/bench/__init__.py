"""Is the input pipeline fast enough, and if not, what holds it up? Measured on the user's own records.

artifact of Ingest ─► measured in processes of their own ─► shares of the stages, utilisation ─► one sentence
"""
