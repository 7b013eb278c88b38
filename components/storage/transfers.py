"""Several transfers at once, which end soon after Ctrl-C or an error of one of them.

main thread ── waits ── Ctrl-C ─► event ─► requests of all threads are not repeated any more
                                      └──► what has not begun is cancelled; nothing is waited for
"""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from components.storage import object_stores

T = TypeVar("T")
R = TypeVar("R")


def each(work: Callable[[T], R], items: Iterable[T], at_once: int) -> list[R]:
    """Returns the result of `work` for each item, in order; raises what the first one raised."""
    stop = object_stores.stop_of_thread() or threading.Event()  # a transfer may consist of several

    def one(item: T) -> R:
        object_stores.stop_thread_by(stop)
        return work(item)

    pool = ThreadPoolExecutor(at_once)
    try:
        return list(pool.map(one, items))
    except BaseException as error:
        stop.set()
        pool.shutdown(wait=isinstance(error, Exception), cancel_futures=True)
        raise
    finally:
        pool.shutdown(wait=False)
