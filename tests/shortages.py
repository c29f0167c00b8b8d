"""What a process has used up, for tests of what it does then."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_descriptor_free() -> Iterator[None]:
    """This process can open nothing."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    fds: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 20, before[1]))
    try:
        try:
            while True:
                fds.append(os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            yield
    finally:
        for fd in fds:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
