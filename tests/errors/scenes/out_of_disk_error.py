"""When it happens: an object finds no room in the object store, and the disk behind the store has none either. sundog
checks this before it writes anything, so the disk is not filled for other programs.

What to do: drop refs that you no longer need, or give the session a larger disk with
`init(object_spilling_directory=…)`. The driver is warned once when that disk is more than 95 % full.
"""

from __future__ import annotations

from sundog.exceptions import OutOfDiskError

RAISES = OutOfDiskError

_MAP_NORESERVE = 0x4000  # has a name in Python from 3.13 on


def happen() -> None:
    import mmap

    import numpy as np

    import sundog as ray

    ray.init(num_cpus=1, object_store_memory=8 << 20)
    # 32 TiB of addresses, not of memory: none of it is ever touched.
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    ray.put(np.frombuffer(mmap.mmap(-1, 1 << 45, flags=flags), np.uint8))
