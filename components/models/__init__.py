"""Keras 3 models: one encoder per modality, one way to join encodings, one head per kind of label.

image       uint8 [side, side, 3]          ─► image.encode  ─┐
token ids   int [length], 0 is padding     ─► text.encode   ─┤                     ┌─► Classification ─► probabilities
tensor      any dtype, any shape           ─► tensor.encode ─┼─► build ─► features ┤
table row   float [k] and category int [m] ─► table.encode  ─┘      (joined.py)    └─► Regression     ─► value
"""
