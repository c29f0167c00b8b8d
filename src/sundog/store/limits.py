"""How large the object store may be if the program does not say: a share of memory, within what shared memory can hold.

Asked once, in the process that starts a session; owns nothing.
"""

from __future__ import annotations

import os

from sundog.config import Config

# The remaining shared memory is for messages and for other programs.
_SHM_SHARE = 0.95


def store_bytes(memory: int, config: Config) -> int:
    """The store's size when none is given: a share of memory, but no more than shared memory can hold."""
    wanted = int(memory * config.object_store_fraction)
    try:
        found = os.statvfs(config.shm_dir)
    except OSError:
        return wanted
    return min(wanted, int(found.f_blocks * found.f_frsize * _SHM_SHARE))
