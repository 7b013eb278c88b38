"""Measured ratios against stock TFX and the tutorial way, interleaved in one run. One command each; never a test."""
