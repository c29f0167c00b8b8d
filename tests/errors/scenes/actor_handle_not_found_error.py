"""When it happens: `kill()` was given a handle of another session, which `shutdown()` has ended.

What to do: create the actor again after `init()`. An actor that must outlive its driver needs `lifetime="detached"`, in
a session of `sundog start`."""

from __future__ import annotations

from sundog.exceptions import ActorHandleNotFoundError

RAISES = ActorHandleNotFoundError


def happen() -> None:
    import sundog as ray

    ray.init(num_cpus=1)

    @ray.remote
    class Counter:
        pass

    counter = Counter.remote()
    ray.shutdown()
    ray.init(num_cpus=1)
    ray.kill(counter)
