"""A Flink cluster on this machine, from the package registries, for `--runner flink`."""
