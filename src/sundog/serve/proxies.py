"""The proxies, as the controller sees them: made, watched, made again when one dies.

Owns the port (`serve.port`): the controller and all proxies hold one listening socket, proxies accept from it together,
and it outlives each of them. In the controller's loop.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import sundog
from sundog.exceptions import RayActorError
from sundog.serve.config import ProxyLocation
from sundog.serve.port import Giver, bound_socket, take
from sundog.serve.proxy import ProxyActor
from sundog.serve.rows import NAMESPACE
from sundog.serve.schema import ProxyStatus

if TYPE_CHECKING:
    from sundog.actor import ActorHandle
    from sundog.plain import JsonObject
    from sundog.serve.controller import ControllerCore

_AGAIN_S = 0.05
_HELD_S = 20.0  # how long a new controller waits for a port that another process of Serve holds


class Proxies:
    """All proxies."""

    def __init__(self, core: ControllerCore) -> None:
        self.core = core
        self.port = 0
        self._giver: Giver | None = None
        self._folder = os.path.join(core.store.folder, "port")
        self._actors: dict[int, ActorHandle[object]] = {}
        self._states: dict[int, ProxyStatus] = {}
        self._facts: dict[int, dict[str, object]] = {}
        self._is_ending = False
        self._changed = asyncio.Event()

    def _are_wanted(self) -> bool:
        options = self.core.options
        return options.location != ProxyLocation.Disabled and options.http.host is not None

    async def bind(self, known_port: int) -> None:
        """Open the port, if there is to be HTTP. From here on connections wait until a proxy accepts them.

        Raises:
            RuntimeError: the address cannot be had.
        """
        http = self.core.options.http
        if not self._are_wanted() or http.host is None:
            return
        port = known_port or http.port
        deadline = time.monotonic() + (_HELD_S if known_port else 0.0)
        while True:
            # A proxy that outlived an earlier controller holds the socket.
            sock = take(self._folder) if known_port else None
            try:
                sock = sock or bound_socket(http.host, port)
                break
            except OSError as error:
                if time.monotonic() > deadline:
                    raise RuntimeError(
                        f"Serve cannot listen on {http.host}:{port}: {error.strerror or error}. Choose another port "
                        'with serve.start(http_options={"port": …}), or end the program that uses this one.'
                    ) from None
            await asyncio.sleep(_AGAIN_S)  # the process with the port is just starting or ending
        self.port = sock.getsockname()[1]
        self._giver = Giver(sock, self._folder, asyncio.get_running_loop())
        sock.close()
        self.core.dirty = True

    async def begin(self) -> None:
        """Have proxies accept connections; returns when all of them do."""
        if not self._are_wanted():
            return
        numbers = range(self.core.options.http.num_proxies)
        for number in numbers:
            self.core.replicas.run(self._keep(number))
        while not all(self._states.get(number) == ProxyStatus.HEALTHY for number in numbers):
            self._changed.clear()
            await self._changed.wait()

    async def _keep(self, number: int) -> None:
        """Keep one proxy alive."""
        name = f"SERVE_PROXY_ACTOR-{number}"
        is_first = True
        while not self._is_ending:
            try:
                await self._live(number, name, is_first)
            except RayActorError:
                pass
            except Exception as error:
                if not self._is_ending:
                    import traceback

                    traceback.print_exception(error)
            is_first = False
            self._states[number] = ProxyStatus.UNHEALTHY
            if not self._is_ending:
                await asyncio.sleep(_AGAIN_S)

    async def _live(self, number: int, name: str, is_first: bool) -> None:
        """One life of a proxy, from its making to its death."""
        actor = None
        if is_first:
            with suppress(ValueError):
                actor = sundog.get_actor(name, namespace=NAMESPACE)  # started by an earlier controller
        if actor is None:
            core = self.core
            actor = (
                sundog.remote(ProxyActor)
                .options(
                    name=name,
                    namespace=NAMESPACE,
                    lifetime="detached",
                    num_cpus=0,
                    max_restarts=0,
                    max_concurrency=10_000,
                    get_if_exists=True,
                )
                .remote(number, core.options.http, self._folder, core.log_folder, core.options.logging)
            )
        self._actors[number] = actor
        self._states.setdefault(number, ProxyStatus.STARTING)
        self._facts[number] = await actor.ready.remote(self.core.routes())
        self._states[number] = ProxyStatus.HEALTHY
        self._changed.set()
        await actor.parked.options(enable_task_events=False).remote()

    async def end(self) -> None:
        """End all proxies; connections that are open end with them."""
        self._is_ending = True
        for actor in self._actors.values():
            with suppress(Exception, asyncio.TimeoutError):
                await asyncio.wait_for(actor.drain.remote(), 2)
            with suppress(Exception):
                sundog.kill(actor)
        if self._giver is not None:
            self._giver.close()

    def statuses(self) -> dict[str, ProxyStatus]:
        """By node, as Ray has them: the worst of this node's proxies."""
        if not self._states:
            return {}
        order = [ProxyStatus.UNHEALTHY, ProxyStatus.STARTING, ProxyStatus.HEALTHY]
        return {self.core.node: min(self._states.values(), key=order.index)}

    def details(self) -> JsonObject:
        """The same, with facts."""
        return {
            node: {
                "status": status.value,
                "node_id": node,
                "node_ip": "127.0.0.1",
                "actor_name": f"SERVE_PROXY_ACTOR-{node}",
                **self._facts.get(0, {}),
            }
            for node, status in self.statuses().items()
        }
