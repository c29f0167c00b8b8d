"""How long a process stood ready to run while other processes had the cores.

Owns the reading of the kernel's count. Refuses to guess: 0.0 where the kernel keeps none. Runs in any process.
"""

from __future__ import annotations

import os

_SCHEDSTAT = "/proc/self/schedstat"


def core_wait_s(path: str = _SCHEDSTAT) -> float:
    """Seconds that the main thread of this process has waited for a core since it began; 0.0 if the kernel does not
    count them.

    Args:
        path: the kernel's file, for tests.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0.0
    try:
        return int(os.read(fd, 100).split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0
    finally:
        os.close(fd)
