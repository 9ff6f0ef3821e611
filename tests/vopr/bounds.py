"""The limits of what the processes may hold while they run and once they have ended: connections, files and objects.

A server or a device may grow with the number of devices, and not with the length of a run. The limits are about twice
what the runs of ten methods needed with 8 and with 20 devices.
"""

from __future__ import annotations

import gc
import os
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from edgefl import kernels
from tests.vopr.ledger import BrokenPromiseError
from tests.vopr.server import ServerProcess

STRANGERS = 4  # connections of a server beside two for each device, of which one is lost and one is new
FILES_OF_DEVICE, FILES_OF_SERVER = 2, 8  # open files of one process
OBJECTS, OBJECTS_PER_DEVICE = 4000, 600  # that Python's garbage collector knows, with the hour's planned faults
ENTRIES, ENTRIES_PER_DEVICE, ENTRIES_PER_VERDICT = 3000, 300, 2  # of lists, dicts, sets and deques together
GONE_S = 5.0  # most seconds of wall time until a thread whose code has ended is gone
LOADED_LATER = ("numpy.ma", "edgefl.methods.fedspu")  # modules that the first simulation of a process would count
CONTAINERS = (list, dict, set, deque)


class Bounds:
    """The limits for one federation, and what was there before it."""

    def __init__(self, devices: int) -> None:
        self._devices, self._files, self._threads = devices, open_files(), set(threading.enumerate())

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count only objects that are made in the with block."""
        kernels.backend()
        for name in LOADED_LATER:
            import_module(name)
        gc.collect()
        was_frozen = gc.get_freeze_count() > 0  # pytest's process keeps what it has loaded frozen
        gc.freeze()
        try:
            yield
        finally:
            if not was_frozen:
                gc.unfreeze()

    def check(self, server: ServerProcess | None, devices: int, verdicts: int) -> None:
        """Raise BrokenPromiseError if the server, if it runs, and so many devices hold more than they may."""
        if server is not None and server.server is not None:
            _check("connections of the server", len(server.server._peers), 2 * self._devices + STRANGERS)
        _check("open files", open_files() - self._files, FILES_OF_DEVICE * devices + FILES_OF_SERVER)
        gc.collect()
        objects = gc.get_objects()
        entries = sum(len(each) for each in objects if type(each) in CONTAINERS)
        _check("objects in memory", len(objects), OBJECTS + OBJECTS_PER_DEVICE * self._devices)
        most = ENTRIES + ENTRIES_PER_DEVICE * self._devices + ENTRIES_PER_VERDICT * verdicts
        _check("entries of objects in memory", entries, most)

    def check_end(self) -> None:
        """Raise BrokenPromiseError if processes that are gone still hold files or threads."""
        _check("open files after the end of all processes", open_files() - self._files, 0)
        for thread in set(threading.enumerate()) - self._threads:
            thread.join(GONE_S)  # the operating system ends a thread a little after its code
        _check("threads after the end of all processes", len(set(threading.enumerate()) - self._threads), 0)


def open_files() -> int:
    """Return the number of open files of this process of the operating system."""
    return len(os.listdir("/proc/self/fd"))


def _check(what: str, count: int, most: int) -> None:
    if count > most:
        raise BrokenPromiseError(f"{count} {what}; expected at most {most}")
