"""The clock of the scheduler, with real signals."""

import os
import signal
import subprocess
import sys
import threading

from pipelines.schedule.clock import SystemClock

# Sleeps while signals arrive at any moment; prints how many arrived.
_SIGNALLED = """
import os, signal, threading, time
from pipelines.schedule.clock import SystemClock

clock, sent = SystemClock(), 0

def send():
    global sent
    while sent < 2000:
        os.kill(os.getpid(), signal.SIGCHLD)
        sent += 1
        time.sleep(1e-4)

with clock.signals():
    sender = threading.Thread(target=send)
    sender.start()
    while sender.is_alive():
        clock.sleep(0)
print(sent, clock.stopped_by)
"""


def test_signals_may_arrive_at_any_moment() -> None:
    """A signal that arrives within the sleep itself does not block the scheduler for ever."""
    done = subprocess.run([sys.executable, "-c", _SIGNALLED], capture_output=True, text=True, timeout=120, check=False)

    assert (done.stdout, done.stderr[-300:]) == ("2000 0\n", "")


def test_a_signal_ends_a_sleep() -> None:
    """SIGTERM stops the scheduler at once, and the end of a child is noticed at once."""
    clock = SystemClock()
    with clock.signals():
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        threading.Timer(0, child.kill).start()
        clock.sleep(600)
        after_child = clock.stopped_by, child.wait(60)
        os.kill(os.getpid(), signal.SIGTERM)
        clock.sleep(600)

    assert (after_child, clock.stopped_by) == ((0, -signal.SIGKILL), signal.SIGTERM)
