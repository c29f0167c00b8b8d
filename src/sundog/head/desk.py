"""What the parts of the head process share: the session, and threads for what blocks.

Owns the pool of threads. Refuses more than a few long questions at a time: the others wait in a queue. Runs in the
head process.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from sundog.engines.heads import HeadInfo
    from sundog.observe.sessions import Opened

P = ParamSpec("P")
T = TypeVar("T")

_THREADS = 8


class Desk:
    """One session, as the head process sees it.

    Attributes:
        session: the session, running or ended.
        info: where this process listens.
        address: what functions of `sundog.util.state` take to ask this session.
    """

    def __init__(self, session: Opened, info: HeadInfo) -> None:
        self.session = session
        self.info = info
        self.address = session.path
        self._threads = ThreadPoolExecutor(_THREADS, "sundog-head")

    async def open(self) -> None:
        """The server begins."""

    async def close(self) -> None:
        """The server ends."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def blocking(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that waits for files or for the node, beside the event loop."""
        call = functools.partial(function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)
