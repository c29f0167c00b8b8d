"""What the workers of every system run: module-level, so that systems which pickle by reference can send it.

Runs in worker processes. Imports nothing heavy, because the start-up program imports it too. Where a body
calls the system again (a nested task, a put), the system is handed in as `api` and pickles as its name.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.systems import System


def small_value() -> bytes:
    return b"ok"


def small_value_batch(api: System, count: int) -> int:
    task = api.remote(small_value)
    api.get([task.remote() for _ in range(count)])
    return count


def spin(iterations: int) -> None:
    """Burn a fixed amount of work (not of time: time would hide that two workers share a core)."""
    while iterations:
        iterations -= 1


def moment() -> float:
    """When this task ran, by the clock that all processes of a machine share."""
    return time.monotonic()


def hold_until(path: str, limit_s: float) -> bool:
    """Keep a worker busy until `path` exists; leaves a file beside it to say that the worker is held."""
    open(f"{path}.held-{os.getpid()}", "w").close()
    deadline = time.monotonic() + limit_s
    while not os.path.exists(path):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def put_small_values(api: System, count: int) -> None:
    for _ in range(count):
        api.put(0)


def put_large_arrays(api: System, count: int, size_bytes: int) -> None:
    import numpy as np

    for _ in range(count):
        api.put(np.zeros(size_bytes // 8, dtype=np.int64))


def list_of_refs(api: System, count: int) -> list[Any]:
    return [api.put(1) for _ in range(count)]


def call_each(api: System, servers: list[Any], count: int) -> None:
    width = len(servers)
    api.get([servers[i % width].small_value.remote() for i in range(count)])


class Server:
    """The plain actor: answers at once."""

    def small_value(self) -> bytes:
        return b"ok"

    def small_value_arg(self, value: object) -> bytes:
        return b"ok"

    def small_value_batch(self, api: System, count: int) -> int:
        return small_value_batch(api, count)


class AsyncServer:
    """The asyncio actor: the same answers from coroutines."""

    async def small_value(self) -> bytes:
        return b"ok"

    async def small_value_arg(self, value: object) -> bytes:
        return b"ok"


class Client:
    """An actor that calls other actors: the load comes from a worker, not from the driver."""

    def __init__(self, api: System, servers: list[Any]) -> None:
        self.api = api
        self.servers = servers

    def call_batch(self, count: int) -> None:
        self.api.get([s.small_value.remote() for s in self.servers for _ in range(count)])

    def call_batch_with_ref(self, count: int) -> None:
        ref = self.api.put(0)
        self.api.get([s.small_value_arg.remote(ref) for s in self.servers for _ in range(count)])
