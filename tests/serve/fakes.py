"""What stands for a session in tests of Serve: actors that answer as the test says, and the verbs that find them.

Owns the fakes that several test files share. No process, no thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Any

import pytest

import sundog
from sundog.serve import context
from sundog.serve.context import ReplicaContext
from sundog.serve.deployment import DeploymentConfig
from sundog.serve.rows import DeploymentID, ReplicaID, RunningReplicaInfo
from sundog.serve.schema import ReplicaRank
from sundog.util import metrics

MODEL = DeploymentID("Model", "shop")


class FakeRef:
    """The ref of a call's result."""

    def __init__(self) -> None:
        self.result: Future[Any] = Future()

    def future(self) -> Future[Any]:
        return self.result

    def __await__(self) -> Generator[object, None, Any]:
        return asyncio.wrap_future(self.result).__await__()


class FakeMethod:
    """A method of an actor: `answers` are given one after the other, the last one again and again."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.calls: list[tuple[tuple[object, ...], dict[str, object]]] = []
        self.refs: list[FakeRef] = []
        self.chosen: dict[str, object] = {}

    def options(self, **chosen: object) -> FakeMethod:
        self.chosen = chosen
        return self

    def remote(self, *args: object, **kwargs: object) -> FakeRef:
        self.calls.append((args, kwargs))
        ref = FakeRef()
        self.refs.append(ref)
        if self.answers:
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            if isinstance(answer, BaseException):
                ref.result.set_exception(answer)
            else:
                ref.result.set_result(answer)
        return ref


class FakeActor:
    """An actor: a method for each name that is asked for, without an answer unless the test gives one."""

    def __init__(self, **answers: object) -> None:
        for name, answer in answers.items():
            setattr(self, name, FakeMethod(*(answer if isinstance(answer, list) else [answer])))

    def __getattr__(self, name: str) -> FakeMethod:
        if name.startswith("__") and name != "__ray_ready__":
            raise AttributeError(name)
        method = FakeMethod()
        setattr(self, name, method)
        return method


class FakeActorClass:
    """What `sundog.remote(cls)` makes, and what actors are made of it."""

    def __init__(self, actor: FakeActor) -> None:
        self.actor = actor
        self.decorated: list[object] = []
        self.chosen: list[dict[str, Any]] = []
        self.given: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def options(self, **chosen: Any) -> FakeActorClass:
        self.chosen.append(chosen)
        return self

    def remote(self, *args: Any, **kwargs: Any) -> FakeActor:
        self.given.append((args, kwargs))
        return self.actor


class FakeSession:
    """The verbs of a session: which actors have which names, and which were killed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.named: dict[str, FakeActor] = {}
        self.killed: list[FakeActor] = []
        self.made = FakeActorClass(FakeActor())
        monkeypatch.setattr(sundog, "get_actor", self.get_actor)
        monkeypatch.setattr(sundog, "kill", self.killed.append)
        monkeypatch.setattr(sundog, "remote", self.remote)
        monkeypatch.setattr(sundog, "get", lambda ref: ref.result.result(0))

    def get_actor(self, name: str, namespace: str | None = None) -> FakeActor:
        if namespace != "serve" or name not in self.named:
            raise ValueError(f"There is no actor {name!r} in namespace {namespace!r}.")
        return self.named[name]

    def remote(self, cls: object) -> FakeActorClass:
        self.made.decorated.append(cls)
        return self.made


def replica_id(name: str = "r1", where: DeploymentID = MODEL) -> ReplicaID:
    return ReplicaID(name, where)


def running(name: str, actor: Any = None, limit: int = 5, **facts: Any) -> RunningReplicaInfo:
    """A replica that takes requests."""
    stands_for: Any = actor or FakeActor()
    return RunningReplicaInfo(replica_id(name), stands_for, -1, limit, **facts)


def replica_context(version: str | None = "v1", servable: object = None, name: str = "r1") -> ReplicaContext:
    return ReplicaContext(
        replica_id(name), servable, DeploymentConfig(), ReplicaRank(rank=0), 1, None, version
    )


def enter_replica(monkeypatch: pytest.MonkeyPatch, found: ReplicaContext | None = None) -> ReplicaContext:
    """This process is a replica until the test ends."""
    found = found or replica_context()
    monkeypatch.setattr(context, "_replica", found)
    return found


class FakeRegistry:
    """The metrics of this process, alone for one test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(metrics, "_registry", metrics._Registry())

    def values(self, name: str) -> dict[tuple[str, ...], float]:
        """The value of each series of a metric, by the values of its tags in the order of their keys."""
        return {
            tuple(each.tags[key] for key in family.tag_keys): each.value
            for family in metrics.collect()
            if family.name == name
            for each in family.samples
        }


class FakeClock:
    """The timers of a loop, which run when the test says so."""

    def __init__(self) -> None:
        self.timers: list[tuple[float, Callable[..., object], tuple[object, ...]]] = []

    def call_later(self, delay_s: float, function: Callable[..., object], *args: object) -> None:
        self.timers.append((delay_s, function, args))

    def ring(self) -> None:
        """Run all timers that are set now."""
        timers, self.timers = self.timers, []
        for _, function, args in timers:
            function(*args)
