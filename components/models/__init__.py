"""Keras 3 models: one encoder a modality, one way to join them, one head a kind of label.

picture  uint8 [s, s, 3]              ─► image.encode  ─┐
ids      int [length], 0 is padding   ─► text.encode   ─┤                    ┌─► Classification ─► probabilities
values   any number, any shape        ─► tensor.encode ─┼─► build ─► features ┤
numbers  float [k], categories int [m] ─► table.encode ─┘      (joined.py)    └─► Regression     ─► a value
"""
