"""The image pipeline for the `tfx` command; see `pipelines/tfx_entry.py`."""

from pipelines.tfx_entry import main

if __name__ == "__main__":
    main("image")
