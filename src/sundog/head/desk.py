"""What the parts of the head process share: the session, its jobs, and threads for what blocks.

Owns the pool of threads, and the task that starts and ends jobs. Refuses more than a few long questions at a time: the
others wait in a queue. Runs in the head process.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from sundog.engines import sessions
from sundog.head.jobs import Jobs
from sundog.util.state.questions import ask

if TYPE_CHECKING:
    from sundog.engines.heads import HeadInfo
    from sundog.observe.sessions import Opened
    from sundog.plain import JsonObject

P = ParamSpec("P")
T = TypeVar("T")

_THREADS = 8
_JOBS_LOOK_S = 0.2


class HeadDesk:
    """One session, as the head process sees it.

    Attributes:
        session: the session, running or ended.
        info: where this process listens.
        address: what functions of `sundog.util.state` take to ask this session.
    """

    def __init__(self, session: Opened, info: HeadInfo, max_running_jobs: int = 0) -> None:
        self.session = session
        self.info = info
        self.address = session.path
        self.packages = f"{session.path}/runtime_resources/packages"
        self.jobs = Jobs(session.path, max_running_jobs, self.packages)
        self._threads = ThreadPoolExecutor(_THREADS, "sundog-head")
        self._jobs_changed = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """The server begins: so do jobs that wait."""
        if self.session.is_live:
            self._keeping = asyncio.create_task(self._keep_jobs())

    async def close(self) -> None:
        """The server ends. Jobs continue."""
        if self._keeping is not None:
            self._keeping.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def wake_jobs(self) -> None:
        """A job came, or was stopped: look at the queue soon."""
        self._jobs_changed.set()

    async def _keep_jobs(self) -> None:
        """Start and end jobs while there are any."""
        while True:
            self._jobs_changed.clear()
            try:
                busy = await self.blocking(self.jobs.tick)
            except OSError as error:
                print(f"the queue of jobs cannot be served now: {error}", flush=True)
                busy = True
            if busy:
                await asyncio.sleep(_JOBS_LOOK_S)
            else:
                await self._jobs_changed.wait()

    def is_live(self) -> bool:
        """Whether the session runs still."""
        return self.session.is_live and sessions.is_alive(self.session.path)

    def driver_rows(self) -> list[JsonObject]:
        """Rows of the drivers that have joined the session, the ended ones included."""
        return ask("jobs", detail=True, address=self.address, whole=False)

    async def blocking(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that waits for files or for the node, beside the event loop."""
        call = functools.partial(function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)
