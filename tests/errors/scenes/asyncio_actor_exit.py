"""When it happens: inside an asyncio actor, where `exit_actor()` was called. It unwinds the method, through the tasks
that the method has started; the caller of the method gets `ActorDiedError`.

What to do: let it pass. An `except Exception` around `exit_actor()` may clean up, but the actor ends nevertheless.
"""

from __future__ import annotations

from sundog.exceptions import AsyncioActorExit

RAISES = AsyncioActorExit


def happen() -> None:
    import sundog as ray
    from sundog.actor import exit_actor
    from sundog.util.queue import Queue

    ray.init(num_cpus=2)

    @ray.remote
    class Crawler:
        async def leave(self, seen: Queue) -> None:
            try:
                exit_actor()
            except Exception as error:
                await seen.put_async(error)
                raise

    seen = Queue()
    crawler = Crawler.remote()
    crawler.leave.remote(seen)
    raise seen.get()
