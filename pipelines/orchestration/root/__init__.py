"""The root of a pipeline: who holds it, whether the disk has room, and what killed runs left in it."""
