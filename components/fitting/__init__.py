"""What Transform fits on the training split, one modality a file: only what needs the whole data set.

    fit(inputs, columns, settings) ─► outputs by name     traced by Transform, applied in training and when serving

The graph that comes out is the only place where what was fitted is kept; `fitted.py` reads it.
"""
