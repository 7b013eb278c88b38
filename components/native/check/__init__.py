"""JPEG checks for ingest: reads a file to its end without making pixels, in half the time of libjpeg.

check.h ─► jpeg_check.cc, a library without TensorFlow
checker.py   `regular_gray()` returns an intact JPEG at an eighth of its size, or None if libjpeg has to decide
"""
