"""What is freed stays with the process, for the next of its kind.

The C library gives memory back to Linux as soon as 128 KB are free at the end of it, and is given it again, page by
page, for the next image: that took longer than to read it.
"""

import ctypes
from functools import lru_cache

_TRIM, _MAP = -1, -3  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
_KEPT, _APART = 64 << 20, 32 << 20  # what the library comes to by itself once it has freed 32 MB in one piece


@lru_cache(maxsize=1)
def keep() -> None:
    """Has this process keep some memory that it has freed. May be called often."""
    set_to = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_to is not None:  # glibc's own
        set_to(_TRIM, _KEPT)
        set_to(_MAP, _APART)
