"""Dask (distributed) with worker processes of one thread each.

Runs in the host. Futures are made impure: otherwise Dask would compute the same call once and remember it. No
nested cases: a Dask task that waits for tasks has to leave its thread pool first, which is another benchmark.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from benchmarks.systems import WORKERS, Submitter, System


class Dask(System):
    name = "dask"
    features: ClassVar[frozenset[str]] = frozenset(
        {"workers", "tasks", "wait", "put", "puts_large", "actors"}
    )

    def __init__(self) -> None:
        self._distributed: Any = None
        self._cluster: Any = None
        self._client: Any = None

    def load(self) -> None:
        self._distributed = importlib.import_module("distributed")

    def start(self) -> None:
        self._cluster = self._distributed.LocalCluster(
            n_workers=WORKERS, threads_per_worker=1, processes=True, dashboard_address=None
        )
        self._client = self._distributed.Client(self._cluster)

    def stop(self) -> None:
        self._client.close()
        self._cluster.close()

    def version(self) -> str:
        return str(self._distributed.__version__)

    def remote(self, function: Callable[..., object]) -> Submitter:
        submit = self._client.submit
        return Submitter(lambda *args: submit(function, *args, pure=False))

    def actor(self, cls: type, **options: object) -> Submitter:
        submit = self._client.submit
        # `num_cpus=0` needs no counterpart: Dask's actors hold no slot. Other options need other features.
        return Submitter(lambda *args: _Handle(submit(cls, *args, actor=True, pure=False)))

    def get(self, refs: Any) -> Any:
        if isinstance(refs, list):
            if refs and not isinstance(refs[0], self._distributed.Future):
                return [ref.result() for ref in refs]
            return self._client.gather(refs)
        return refs.result()

    def put(self, value: object) -> Any:
        return self._client.scatter(value, hash=False)

    def wait(
        self, refs: Sequence[Any], num_returns: int = 1, fetch_local: bool = True
    ) -> tuple[list[Any], list[Any]]:
        when = "ALL_COMPLETED" if num_returns == len(refs) else "FIRST_COMPLETED"
        done = self._distributed.wait(refs, return_when=when).done
        ready = [ref for ref in refs if ref in done][:num_returns]
        taken = set(ready)
        return ready, [ref for ref in refs if ref not in taken]

    def kill(self, handle: Any) -> None:
        handle.release()


class _Handle:
    """Spells a Dask actor's `actor.method()` as `handle.method.remote()`."""

    def __init__(self, future: Any) -> None:
        self._future = future
        self._actor: Any = None

    def __getattr__(self, method: str) -> Submitter:
        if self._actor is None:
            self._actor = self._future.result()
        submitter = Submitter(getattr(self._actor, method))
        setattr(self, method, submitter)
        return submitter

    def release(self) -> None:
        # Dask frees an actor with the last reference to the future that made it.
        self.__dict__.clear()


SYSTEMS = {"dask": Dask}
