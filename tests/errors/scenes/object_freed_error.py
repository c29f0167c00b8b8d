"""When it happens: the program itself freed the object, with `sundog.internal.free`, and then read it. Every ref to
it, in whichever process, raises this from then on, and so does what gets it as an argument; it is not computed again.
Values that were read before stay right. The message names the process and the line that freed it, and the line that
made the ref.

What to do: free an object after its last reader, or not at all: its memory goes by itself with the last ref to it, so
`del ref` is what most programs need.
"""

from __future__ import annotations

from sundog.exceptions import ObjectFreedError

RAISES = ObjectFreedError


def happen() -> None:
    import sundog as ray

    ray.init(num_cpus=1)

    @ray.remote
    def load() -> bytes:
        return b"x" * 1_000_000

    ref = load.remote()
    print(len(ray.get(ref)))
    ray.internal.free([ref])
    ray.get(ref)
