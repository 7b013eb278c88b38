"""Loads TFX without packages that its libraries import if they are installed, and that no node uses.

    absent: import ─► ImportError ─► the library goes on without the package
    afterwards the packages can be imported again, by a user's code

It saves 0.7 s of every run that has something to do (docs/adr/0045-load-tfx-without-optional-packages.md).
"""

import contextlib
import sys
from collections.abc import Iterator

_OPTIONAL = (
    "sklearn",  # imported by Keras, for its wrappers, and nltk; with it comes scipy.stats
    "google.cloud.bigquery",  # the next four by Beam, for sources and sinks
    "google.cloud.bigquery_storage_v1",
    "google.cloud.pubsub",
    "pymongo",
    "redis",  # by portalocker, which TFMA's BLEU loads
)


@contextlib.contextmanager
def absent() -> Iterator[None]:
    """Lets imports of the optional packages fail within the block, unless they are already loaded."""
    hidden = [name for name in _OPTIONAL if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in hidden:
            if sys.modules.get(name) is None:
                sys.modules.pop(name, None)
