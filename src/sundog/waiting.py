"""`wait` on a list that has generators among its refs.

A ref is ready when its object is there; a generator is ready when `next()` on it would not block: an item
waits to be taken, or it has ended. Owns no state beyond one call. Any thread of a driver or worker.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from sundog.engines.local import LocalEngine
from sundog.generator import ObjectRefGenerator
from sundog.owner.core import Owner
from sundog.refs import ObjectRef

W = TypeVar("W")
Waitable = TypeVar("Waitable", bound="ObjectRef[object] | ObjectRefGenerator[object]")


def wait_mixed(
    engine: LocalEngine, refs_and_generators: list[Waitable], num_returns: int, timeout_s: float | None
) -> tuple[list[Waitable], list[Waitable]]:
    """The waitables that are ready (at most `num_returns`) and all others, each in the order given."""
    waiting = _Waiting(engine.owner, refs_and_generators, num_returns)
    waiting.register()
    try:
        if timeout_s == 0:
            waiting.pump()
        else:
            engine.owner.getting.block_until(waiting.is_over, waiting.key, timeout_s)
            engine.owner.check_open()
    finally:
        waiting.unregister()
    return waiting.split()


class _Waiting(Generic[Waitable]):
    """One call of `wait`: woken by each waitable that becomes ready, done when enough are."""

    def __init__(self, owner: Owner, waitables: list[Waitable], num_returns: int) -> None:
        self.owner = owner
        self.waitables = waitables
        self.num_returns = num_returns
        self.key = b"mixed" + id(self).to_bytes(8, "little")
        self._changed = True

    def register(self) -> None:
        """Have every waitable that is not ready wake us."""
        owner = self.owner
        with owner.lock:
            owner.check_open()
            for each in self.waitables:
                if isinstance(each, ObjectRefGenerator):
                    self._watch(each)
                    continue
                if each._id not in owner.ready:
                    owner.objects.ask_for(each._id)
                if each._id not in owner.ready:
                    owner.waiters.setdefault(each._id, []).append(self._arrived)

    def _watch(self, generator: ObjectRefGenerator[object]) -> None:
        stream = self.owner.streams.streams.get(generator._task_id)
        if stream is not None and not self._is_ready(generator):
            stream.wakers.append(self._wake)

    def unregister(self) -> None:
        """Leave nothing behind in what was not ready."""
        owner = self.owner
        with owner.lock:
            for each in self.waitables:
                if isinstance(each, ObjectRefGenerator):
                    stream = owner.streams.streams.get(each._task_id)
                    if stream is not None and self._wake in stream.wakers:
                        stream.wakers.remove(self._wake)
                    continue
                callbacks = owner.waiters.get(each._id)
                if callbacks is not None and self._arrived in callbacks:
                    callbacks.remove(self._arrived)
                    if not callbacks:
                        del owner.waiters[each._id]

    def _arrived(self, _oid: bytes) -> None:
        self._wake()

    def _wake(self) -> None:
        self._changed = True
        self.owner.objects.announce(self.key)

    def is_over(self) -> bool:
        """Whether enough are ready; counts again only after something has become ready."""
        if not self._changed:
            return False
        self._changed = False
        with self.owner.lock:
            return sum(1 for each in self.waitables if self._is_ready(each)) >= self.num_returns

    def _is_ready(self, waitable: ObjectRef[object] | ObjectRefGenerator[object]) -> bool:
        if isinstance(waitable, ObjectRefGenerator):
            return self.owner.streams.peek_ready(waitable._task_id)
        return waitable._id in self.owner.ready

    def pump(self) -> None:
        """Look once, without blocking."""
        with self.owner.lock:
            if not self.owner.reactor.leader:
                self.owner.reactor.pump()

    def split(self) -> tuple[list[Waitable], list[Waitable]]:
        """The first `num_returns` that are ready, and everything else."""
        ready: list[Waitable] = []
        rest: list[Waitable] = []
        with self.owner.lock:
            for each in self.waitables:
                (ready if len(ready) < self.num_returns and self._is_ready(each) else rest).append(each)
        return ready, rest


def split(refs: list[W], oids: list[bytes], ready: set[bytes]) -> tuple[list[W], list[W]]:
    """The refs whose objects are ready, and the other refs, each in order."""
    done, rest = [], []
    for oid, ref in zip(oids, refs):
        if oid in ready:
            done.append(ref)
        else:
            rest.append(ref)
    return done, rest
