"""Pretrained models that turn images into embeddings.

| `extract.model` is                        | where = beam | where = frozen, finetune                               |
|-------------------------------------------|--------------|--------------------------------------------------------|
| a SavedModel that Penstock pushed         | yes          | yes: it contains a Keras model with the same weights   |
| any other SavedModel with one input       | yes          | no                                                     |
| a .keras file                             | yes          | yes                                                    |
| the name of a Keras application           | yes          | yes; its weights must be in Keras' cache already       |
| a KerasHub preset: a folder, or a name    | yes          | yes; a named preset must be in KerasHub's cache already |

find.py       the model that the settings name, with its digest; imports no TensorFlow
scan.py       what a model could do besides computing
copy_model.py copies it and checks the copy: digest, links, scan
load.py       the model as a function of encoded images, or as a Keras model
width.py      the length of its embeddings
component.py  the nodes Extractor and Extract
"""
