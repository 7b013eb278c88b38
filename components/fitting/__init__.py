"""What Transform fits on the training split, one file per modality: only what needs the whole data set.

    fit(inputs, columns, settings) ─► outputs by name     traced by Transform, applied in training and serving

The Transform graph is the only place that keeps fitted values; `fitted.py` reads them.
"""
