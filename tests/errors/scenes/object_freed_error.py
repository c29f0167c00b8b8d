"""When it happens: the program itself freed the object, with `sundog.internal.free`, and then read it. Every ref to it,
in every process, raises this from then on, and so does a task that gets it as an argument. The object is not computed
again. Values that were read before stay valid. The message names the process and the line that freed it, and the line
that made the ref.

What to do: free an object after its last reader, or not at all: sundog frees its memory when the last ref to it is
gone, so most programs need only `del ref`."""

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
