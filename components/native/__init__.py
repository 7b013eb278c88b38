"""JPEG decode of our own: whole batches, only the box of each image, resized and mirrored, straight into the batch.

    contents [n] ─► shapes ─► boxes drawn by the caller ─► decode_crop_resize ─► uint8 [n, height, width, 3]

    image.h       what the first bytes tell
    huffman.h       the coded data ─► jpeg_reader.h: libjpeg, row by row ─┐
    huffman_code.h  its tables                                           ├─► decode.h ─► jpeg_batch.cc
    resize.h        rows to rows ────────────────────────────────────────┘   a image   two TensorFlow ops
    check.h         the coded data, read to its end ─► jpeg_check.cc: a library without TensorFlow
    build.py        g++ with the headers in TensorFlow's wheel and the libjpeg-turbo in Pillow's
    loader.py       `load()`: the ops, or None and `why_not()`
    checker.py      `regular_gray()`: a JPEG at an eighth of its size, if it is whole

Training and ingest may use it when it is there. Evaluation and serving never do, so an exported model needs nothing of
ours; and what ingest makes of a file is the same without it.
"""

from typing import Final

SWITCH: Final = "PENSTOCK_NATIVE"  # 0 turns all of it off
