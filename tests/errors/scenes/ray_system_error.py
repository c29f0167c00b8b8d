"""When it happens: a verb was used without a session, or the runtime itself failed: the
node did not come up, or did not answer.

What to do: call `init()` first. If the message tells of the node, look at the end of its log.
"""

from __future__ import annotations

from sundog.exceptions import RaySystemError

RAISES = RaySystemError


def happen() -> None:
    import sundog as ray

    ray.init(num_cpus=1)
    ref = ray.put("a value")
    ray.shutdown()
    ray.get(ref)
