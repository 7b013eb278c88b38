"""The tensor pipeline, as the `tfx` CLI takes it.

    tfx pipeline create --engine local --pipeline_path pipelines/tensor.py
    tfx run create --engine local --pipeline_name tensor

Settings come from penstock.toml; PENSTOCK_DATA and PENSTOCK_ROOT name another data folder and pipeline root.
"""

from pipelines.tfx_entry import main

if __name__ == "__main__":
    main("tensor")
