"""The text pipeline, for the `tfx` CLI.

    tfx pipeline create --engine local --pipeline_path pipelines/text.py
    tfx run create --engine local --pipeline_name text

Settings are read from penstock.toml; PENSTOCK_DATA and PENSTOCK_ROOT set another data folder and pipeline root.
"""

from pipelines.tfx_entry import main

if __name__ == "__main__":
    main("text")
