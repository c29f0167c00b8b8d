"""A worker's parts without a process of their own: the test holds the other end of its lane and of its line."""

from __future__ import annotations

import os
import pickle
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from sundog.config import Config
from sundog.exceptions import RayTaskError
from sundog.net import packets
from sundog.owner import context
from sundog.owner.core import Owner
from sundog.titles import Title
from sundog.wire import lanes as wire
from sundog.worker.answers import AnswerLane
from sundog.worker.executor import Executor
from sundog.worker.meter import Meter
from sundog.worker.serving import Serving
from tests.owner.fakes import OTHER
from tests.owner.whole import FakeNode, whole_owner


class FakeSampler:
    """Looks at nothing."""

    dormant = False

    def wake(self) -> None:
        pass


class FakeGuard:
    """Guards no replies: tests read them at once."""

    def begin_batch(self) -> None:
        pass

    def end_batch(self) -> None:
        pass

    def watch_item(self) -> None:
        pass


class FakeBreakpoints:
    """Errors at which a task was to be stopped."""

    def __init__(self) -> None:
        self.stopped: list[BaseException] = []

    def post_mortem(self, error: BaseException) -> None:
        self.stopped.append(error)


class WholeWorker:
    """An executor and its serving, with one lane from one owner."""

    def __init__(self, owner: Owner, node: FakeNode) -> None:
        self.owner, self.node = owner, node
        self.executor = Executor(owner)
        self.executor.sampler, self.executor.breakpoints = FakeSampler(), FakeBreakpoints()
        self.executor.meter, self.executor.title = Meter(owner.ring), Title()
        self.serving = Serving(owner, self.executor)
        self.serving.open()
        self.serving.guard = FakeGuard()  # type: ignore[assignment]
        self.executor.item_waits = self.serving.guard.watch_item
        ours, self.ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.ours.setblocking(False)
        self.serving.add_lane(OTHER, ours.detach())
        [self.lane] = self.serving.lanes.values()
        self._numbers = iter(range(1, 1000))

    def knows(
        self, function: Callable[..., Any], *, returns: int | str = 1, retry: object = False, calls: int = 0
    ) -> int:
        """The number of a function that the owner has sent."""
        number = next(self._numbers)
        blob = cloudpickle.dumps(function)
        name = getattr(function, "__name__", "f")
        self.executor.learn(self.lane, [(number, b"%d" % number, blob, name, returns, retry, calls)])
        return number

    def item(self, what: object, *args: object, task: int = 1, extra: wire.Extra | None = None) -> wire.Item:
        """A task or call as it comes on the lane."""
        return (bytes([task]) * 16, what, pickle.dumps(args, 5) if args else None, 1.0, extra)

    def run(self, what: object, *args: object, **more: Any) -> Any:
        """The only reply to a task or call that is run now."""
        self.executor.run(self.lane, self.item(what, *args, **more))
        [reply] = self.replies()
        return reply

    def replies(self) -> list[Any]:
        """All replies so far."""
        self.lane.flush(self.executor.shm_root)
        found: list[Any] = []
        while True:
            try:
                data = self.ours.recv(packets.RECV_BYTES)
            except BlockingIOError:
                return found
            if not data:
                return found
            found += packets.decode(data)

    def close(self) -> None:
        for fd in list(self.serving.lanes):
            self.serving.drop_lane(fd)
        self.ours.close()
        for each in (self.serving.epoll, self.serving.outer):
            each.close()
        for fd in (self.serving.wake_r, self.serving.wake_w):
            os.close(fd)


@contextmanager
def whole_worker(folder: Path, config: Config | None = None) -> Iterator[WholeWorker]:
    """A worker as far as one process can be one for a test."""
    patch = pytest.MonkeyPatch()
    patch.setattr(context, "facts", context.ProcessFacts(mode="worker"))
    shown = config or Config(record_enabled=False, capsule_on_failure=False)
    with whole_owner(folder, shown, "worker") as (owner, node):
        made = WholeWorker(owner, node)
        try:
            yield made
        finally:
            made.close()
            patch.undo()


def error_in(reply: Any) -> Any:
    """The error that a reply carries, as `get` raises it."""
    _, kind, payload, _ = reply
    assert kind == wire.R_ERROR
    error = pickle.loads(payload[1][1])
    return error.as_instanceof_cause() if isinstance(error, RayTaskError) else error


__all__ = ["AnswerLane", "WholeWorker", "error_in", "whole_worker"]
