"""A process's connection to Serve, while the controller is away."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

import sundog
from sundog.serve import client as clients
from sundog.serve.rows import DeploymentID
from sundog.serve.targets import DeploymentTargets

_DEPLOYMENT = DeploymentID("D", "app")


class _Method:
    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def options(self, **_given: Any) -> _Method:
        return self

    async def remote(self, *args: object) -> Any:
        answer = self._answer(*args)
        if isinstance(answer, BaseException):
            raise answer
        return answer


@dataclass
class _Welcome:
    """What the controller answers to a process that says hello."""

    column: int


class _Controller:
    """An actor that answers `hello` and `listen` with `answer`."""

    def __init__(self, answer: Any) -> None:
        self.hello = self.listen = _Method(answer)


class _Router:
    def __init__(self) -> None:
        self.updates: list[DeploymentTargets] = []

    def update(self, targets: DeploymentTargets) -> None:
        self.updates.append(targets)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> clients.Client:
    """A connection without a session."""
    found = clients.Client.__new__(clients.Client)
    found.process, found.board, found.is_closed = "1-ab", None, False
    found.routers = {}
    monkeypatch.setattr(clients, "_AGAIN_S", 0.0)
    monkeypatch.setattr(found, "is_over", lambda: found.is_closed, raising=False)
    return found


def test_a_controller_that_is_away_for_long_is_waited_for(
    made: clients.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter(range(0, 10_000, 10))  # ten seconds pass between two looks at the clock
    monkeypatch.setattr(clients.time, "monotonic", lambda: float(next(now)))
    lives = [RuntimeError("the node is busy")] * 50
    back: Any = _Controller(lambda *_: _Welcome(3))

    def get_actor(*_: object, **__: object) -> Any:
        if lives:
            raise lives.pop()
        return back

    monkeypatch.setattr(sundog, "get_actor", get_actor)
    assert asyncio.run(made._find_controller())
    assert made.controller is back


def test_what_waits_is_answered_when_serve_was_shut_down(
    made: clients.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_actor(*_: object, **__: object) -> Any:
        raise ValueError("no such actor")

    monkeypatch.setattr(sundog, "get_actor", no_actor)
    gone: Any = _Controller(lambda *_: sundog.exceptions.RayActorError("gone"))
    made.controller = gone
    router: Any = _Router()
    made.routers[_DEPLOYMENT] = router
    asyncio.run(made._watch(_DEPLOYMENT, router))
    assert [each.exists for each in router.updates] == [False]
    assert made.routers == {}
