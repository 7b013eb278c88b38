"""All settings: one file per section, `tree.py` joins them."""
