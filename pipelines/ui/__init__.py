"""The page over all pipelines of a folder: `penstock ui` serves it on this machine, or writes it as files."""
