"""JPEG decoding for training: crops of whole batches, resized and mirrored, written straight into the batch.

contents [n] ─► shapes ─► crop boxes drawn by the caller ─► decode_crop_resize ─► uint8 [n, height, width, 3]

image.h           size and format from an image's first bytes
../jpeg_reader.h  libjpeg, row by row, with our Huffman reader ─┐
resize.h          rows to rows of another size ─────────────────┴─► decode.h ─► jpeg_batch.cc
                                                                    one image   two TensorFlow ops
loader.py         `load()` returns the ops, or None; `why_not()` says why
"""
