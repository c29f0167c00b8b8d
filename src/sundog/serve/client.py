"""This process's connection to Serve: the controller's handle, the routers, and the thread that keeps them up to date.

::

    controller ──long poll──► loop of the thread `sundog-serve` ──► routers of this process
               ◄──numbers────   (also: requests that wait, custom request routers)

Owns the thread and its loop, one for each session of this process; it ends with the session. Runs in drivers,
replicas, proxies and any other process that uses a handle.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Literal, overload

import sundog
from sundog import engines
from sundog.exceptions import RayActorError, RayError
from sundog.serve.board import QueueBoard
from sundog.serve.exceptions import RayServeException
from sundog.serve.router import Router
from sundog.serve.rows import CONTROLLER_NAME, NAMESPACE, DeploymentID
from sundog.serve.targets import DeploymentTargets

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from concurrent.futures import Future
    from typing import TypeVar

    from sundog.actor import ActorHandle
    from sundog.serve.handle import DeploymentHandle
    from sundog.serve.rows import Reported

    T = TypeVar("T")

_AGAIN_S = 0.1
_lock = threading.Lock()
_client: Client | None = None


class Client:
    """The connection of one process to one running Serve."""

    def __init__(self, controller: ActorHandle[object]) -> None:
        self.controller = controller
        self.engine = engines.current()
        self.loop = asyncio.new_event_loop()
        self.routers: dict[DeploymentID, Router] = {}
        self.handles: dict[tuple[str, str], DeploymentHandle[object]] = {}
        self.is_closed = False
        self.is_proxy = False
        self.board: QueueBoard | None = None
        self.process = f"{os.getpid()}-{os.urandom(4).hex()}"
        self._watches: dict[DeploymentID, object] = {}
        facts = sundog.get(controller.hello.remote(self.process, os.getpid()))
        if facts.column >= 0:
            self.board = QueueBoard(facts.board_path, facts.column)
        self.facts = facts
        self._thread = threading.Thread(target=self._run, daemon=True, name="sundog-serve")
        self._thread.start()

    # ------------------------------------------------------------------ the thread
    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.create_task(self._report())
        self.loop.run_forever()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        with contextlib.suppress(Exception):
            self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()

    def is_over(self) -> bool:
        """Whether the session of this connection has ended."""
        engine = self.engine
        return (
            self.is_closed
            or engine is None
            or engine.owner.closed is not None
            or engines.current() is not engine
        )

    def close(self) -> None:
        """End the thread."""
        if not self.is_closed:
            self.is_closed = True
            with contextlib.suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self.loop.stop)

    def join(self) -> None:
        """Wait for the thread's end."""
        if threading.current_thread() is not self._thread:
            self._thread.join(2)
        if self.board is not None:
            self.board = None

    def soon(self, function: Callable[..., object], *args: object) -> None:
        """Call a function in the loop; any thread."""
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(function, *args)

    def run(self, coro: Coroutine[object, object, T]) -> Future[T]:
        """Run a coroutine in the loop; any thread. Returns its future."""
        return asyncio.run_coroutine_threadsafe(coro, self.loop)

    # ------------------------------------------------------------------ routers
    def router(self, deployment: DeploymentID) -> Router:
        """The router of this process for a deployment."""
        with _lock:
            found = self.routers.get(deployment)
            if found is None:
                found = self.routers[deployment] = Router(self, deployment, self.is_proxy)
                self._watches[deployment] = self.run(self._watch(deployment, found))
            return found

    async def _watch(self, deployment: DeploymentID, router: Router) -> None:
        """Keep a router up to date until the session or Serve ends."""
        async for targets in self.follow(("deployment", deployment)):
            router.update(targets if targets is not None else DeploymentTargets(exists=False))
        if (
            not self.is_over()
        ):  # Serve was shut down: waiting calls are answered, and the next Serve has a new router
            with _lock:
                self.routers.pop(deployment, None)
            router.update(DeploymentTargets(exists=False))

    async def follow(self, key: tuple[object, ...]) -> AsyncIterator[Any]:
        """Each new value of something that the controller publishes, beginning with the present one."""
        seen: str | None = None
        while not self.is_over():
            try:
                listen = self.controller.listen.options(enable_task_events=False)  # this call never ends
                seen, value = await listen.remote(key, seen, self.process)
            except RayActorError:
                if not await self._find_controller():
                    break
                continue
            except (RayError, RuntimeError):
                if self.is_over():
                    break
                await asyncio.sleep(_AGAIN_S)
                continue
            yield value
        if self.is_over():
            self.close()

    async def _find_controller(self) -> bool:
        """The controller is gone: wait for its next life, however long. False if Serve has been shut down."""
        while not self.is_over():
            await asyncio.sleep(_AGAIN_S)
            try:
                self.controller = sundog.get_actor(CONTROLLER_NAME, namespace=NAMESPACE)
            except ValueError:
                return False
            except Exception:
                continue
            try:
                facts = await self.controller.hello.remote(self.process, os.getpid())
            except Exception:
                continue
            if self.board is not None:
                self.board.column = facts.column
            return True
        return False

    # ------------------------------------------------------------------ numbers for autoscaling
    async def _report(self) -> None:
        interval = self.facts.report_interval_s
        while not self.is_over():
            await asyncio.sleep(interval)
            if self.is_over():
                break
            self.report_now()
        self.close()

    def report_now(self) -> None:
        """Tell the controller what waits and runs; in the loop."""
        rows: dict[DeploymentID, Reported] = {}
        for deployment, router in list(self.routers.items()):
            waiting, running = router.metrics()
            answered, router.answered = router.answered, {}
            if waiting or running or answered or (router.targets is not None and router.targets.autoscales):
                rows[deployment] = (waiting, running, answered)
        if rows:
            with contextlib.suppress(Exception):
                self.controller.report.remote(self.process, time.time(), rows)


@overload
def connect(or_none: Literal[False] = False) -> Client: ...
@overload
def connect(or_none: bool) -> Client | None: ...
def connect(or_none: bool = False) -> Client | None:
    """The connection of this process to the Serve that runs in its session.

    Raises:
        RayServeException: none runs.
    """
    global _client
    found = _client
    if found is not None and not found.is_over():
        return found
    if not sundog.is_initialized():
        if or_none:
            return None
        sundog.init(namespace=NAMESPACE)
    try:
        controller = sundog.get_actor(CONTROLLER_NAME, namespace=NAMESPACE)
    except ValueError:
        if or_none:
            return None
        raise RayServeException(
            "Serve does not run on this cluster. Start it with serve.start() or serve.run()."
        ) from None
    made = Client(controller)
    with _lock:
        if _client is not None and not _client.is_over():
            made.close()
            return _client
        _client = made
    engines.when_leaving(disconnect)
    return made


def disconnect() -> None:
    """Release the connection, if there is one."""
    global _client
    with _lock:
        found, _client = _client, None
    if found is not None:
        found.close()
        found.join()
