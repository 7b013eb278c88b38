"""References to code by name: `package.module:attribute`.

A Task names its parts this way for two reasons: reading a Task imports nothing heavy, and a node's fingerprint contains
the code of the parts that this node loads, and no other.
"""

import importlib
from typing import Any


def module_of(ref: str) -> str:
    """Returns the module of a reference."""
    return ref.partition(":")[0]


def load(ref: str) -> Any:
    """Imports and returns what a reference names."""
    module, colon, attribute = ref.partition(":")
    if not colon:
        raise ValueError(f"reference {ref!r}: expected 'package.module:attribute'")
    return getattr(importlib.import_module(module), attribute)
