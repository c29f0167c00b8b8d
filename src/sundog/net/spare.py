"""One descriptor that a process keeps back, so that a large message can be written and read when it has no other free.

A message larger than a packet is a file (`packets.py`). A user's program that has used up its descriptors must not lose
such a message: with it would go a task, or what the node has to say. Owns that descriptor: closed while a file is open
in its place, and opened again afterwards. Serves messages, and modules of sundog's own that a verb loads late; refuses
anything else. Used by every process of a session, any thread; one thread at a time has the place.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TypeVar

T = TypeVar("T")

NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)
LATE = ("sundog.waiting", "sundog.owner.fetching")
"""Modules of sundog's own that verbs load at their first need."""
_PLACE, _DEVICE = "/dev/null", os.makedev(1, 3)


class SpareDescriptor:
    """See the module."""

    def __init__(self) -> None:
        self._fd = -1
        self._wanted = False
        # Re-entrant: a signal handler may send a message during this code.
        self._lock = threading.RLock()

    def hold(self) -> None:
        """Keep a descriptor back from now on."""
        with self._lock:
            self._wanted = True
            self._keep()

    def release(self) -> None:
        """The session of this process is over."""
        with self._lock:
            self._wanted = False
            self._give_up()

    def abandon(self) -> None:
        """The program has closed descriptors that it does not know; this number may be of a file of its own."""
        with self._lock:
            self._wanted, self._fd = False, -1

    @contextmanager
    def opened(self, path: str, flags: int) -> Iterator[int]:
        """A descriptor of a file, new ones for this user alone, in the place of the spare one if no other is free.

        Raises:
            OSError: it cannot be opened.
        """
        with contextlib.ExitStack() as stack:
            try:
                fd = os.open(path, flags | os.O_CLOEXEC, 0o600)
            except OSError as error:
                if error.errno not in NO_DESCRIPTOR:
                    raise
                stack.enter_context(self._lock)
                if not self._give_up():
                    raise
                stack.callback(self._keep)
                fd = os.open(path, flags | os.O_CLOEXEC, 0o600)
            stack.callback(os.close, fd)
            yield fd

    def instead(self, make: Callable[[], T]) -> T:
        """What `make` makes, a descriptor for good, in the place of the spare one if no other is free.

        Raises:
            OSError: it cannot be made.
        """
        try:
            return make()
        except (OSError, ImportError) as error:
            if isinstance(error, OSError) and error.errno not in NO_DESCRIPTOR:
                raise
            with self._lock:
                if not self._give_up():
                    raise
                for name in LATE:  # the place is taken for good: they could not be loaded any more
                    import_module(name)
                return make()

    def load(self, name: str) -> None:
        """Import a module, in the place of the spare descriptor if no other is free.

        Raises:
            OSError: it cannot be read.
        """
        try:
            import_module(name)
        except OSError as error:
            if error.errno not in NO_DESCRIPTOR:
                raise
            with self._lock:
                if not self._give_up():
                    raise
                try:
                    import_module(name)
                finally:
                    self._keep()

    def _keep(self) -> None:
        if self._fd < 0 and self._wanted:
            with contextlib.suppress(OSError):  # the next message tries again
                self._fd = os.open(_PLACE, os.O_RDONLY | os.O_CLOEXEC)

    def _give_up(self) -> bool:
        """Close the spare descriptor; False if there is none, or the program has put a file of its own there."""
        fd, self._fd = self._fd, -1
        if fd < 0:
            return False
        try:
            if os.fstat(fd).st_rdev != _DEVICE:
                return False
        except OSError:
            return False
        os.close(fd)
        return True


spare = SpareDescriptor()
"""Of this process."""


def imported(name: str) -> None:
    """Load a module of sundog's that is needed now, though the program may have used up its descriptors."""
    if name not in sys.modules:
        spare.load(name)
