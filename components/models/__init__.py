"""Keras 3 models, one a file: `build(inputs, classes)` returns an uncompiled model that ends in probabilities."""
