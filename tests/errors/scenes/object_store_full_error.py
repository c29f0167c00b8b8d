"""When it happens: an object finds no room in the object store, all that is in the store is in use (or spilling is
switched off), and `store_fallback_to_disk` is off, so that the object may not go to disk instead. The put waits 2 s for
others to free something.

What to do: drop refs and arrays that you no longer need, give the store more with `init(object_store_memory=…)`, or
leave `store_fallback_to_disk` on, as it is by default.
"""

from __future__ import annotations

from sundog.exceptions import ObjectStoreFullError

RAISES = ObjectStoreFullError


def happen() -> None:
    import numpy as np

    import sundog as ray

    ray.init(num_cpus=1, object_store_memory=8 << 20, _system_config={"store_fallback_to_disk": False})
    refs = [ray.put(np.zeros(1 << 20, np.uint8)) for _ in range(7)]
    arrays = ray.get(refs)
    ray.put(np.zeros(sum(array.nbytes for array in arrays), np.uint8))
