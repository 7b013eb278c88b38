"""Benchmarks: ratios against stock TFX, tutorials and other data loaders, interleaved in one run. No tests."""
