"""TFRecord files: framing and writer, and a reader that finds damaged records."""
