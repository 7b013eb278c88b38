"""One modality a file. Each is a frozen dataclass with the same four methods.

spec()               how it stands in a record
decode(value)        deterministic; the one function that training, evaluation and serving share, so no skew
augment(value, seed) random, training only, stateless: the seed is passed in
keras_input()        what the model receives
"""
