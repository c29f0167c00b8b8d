"""When it happens: a ref was used whose object had been freed, because no counted ref to it was left: its id was
kept as plain bytes, or the ref was pickled by hand in another process.

What to do: keep the ref itself, and pass refs through arguments, results or `put()`. If your program does
neither of the above, this is a defect of sundog: please report it.
"""

from __future__ import annotations

from sundog.exceptions import ReferenceCountingAssertionError

RAISES = ReferenceCountingAssertionError


def happen() -> None:
    import sundog as ray

    ray.init(num_cpus=1)

    @ray.remote
    def work() -> None:
        pass

    ref = ray.put("a value")
    kept_by_hand = ref.binary()
    del ref
    ray.get(work.remote())
    ray.get(ray.ObjectRef(kept_by_hand))
