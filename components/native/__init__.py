"""Native JPEG code in C++: two libraries, each with its own recipe and fingerprint.

    decode/   TensorFlow ops for training: batches of encoded images to cropped and resized pixels
    check/    plain library for ingest: reads a JPEG to its end and returns it at an eighth of its size
    build.py  compiles both with g++, TensorFlow's headers and the libjpeg-turbo in Pillow's wheel

    jpeg_reader.h, huffman.h, huffman_code.h, bytes.h   libjpeg with our own Huffman reader, shared by both

Everything works without them, more slowly: training then decodes with TensorFlow's ops, and ingest with libjpeg alone.
Evaluation and serving never use them, so an exported model needs nothing of ours.
"""

from typing import Final

SWITCH: Final = "PENSTOCK_NATIVE"  # environment variable; 0 turns both libraries off
