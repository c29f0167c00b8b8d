"""The driver's side of the records."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from sundog.engines import sessions
from sundog.engines.sessions import is_alive
from sundog.observe.sessions import open_session
from sundog.ray_engine import told
from sundog.ray_engine.gathering import Gathering
from sundog.ray_engine.pushes import HERE
from tests.ray_engine.fakes import FakeIdentity, FakeProcess

NODE, OTHER = "aa" * 28, "bb" * 28


class Answers:
    """Stands for Home and for tasks on nodes: what is asked is noted, and answered at once."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers, self.asked = answers, []  # type: ignore[var-annotated]

    def __getattr__(self, name: str) -> Verb:
        return Verb(self, name)


class Verb:
    """One method of `Answers`."""

    def __init__(self, answers: Answers, name: str) -> None:
        self.of, self.name = answers, name

    def remote(self, *args: Any) -> Any:
        self.of.asked.append((self.name, args))
        return self.of.answers.get(self.name)


class FakeRay:
    """Ray with one node: its only actor is Home, and a ref is its value."""

    is_gone = False

    def __init__(self, home: Answers) -> None:
        self.home = home

    def remote(self, *_args: Any, **_options: Any) -> Callable[[object], FakeRemote]:
        return lambda _target: FakeRemote(self.home)

    def get(self, value: Any, timeout: float) -> Any:
        return value

    def nodes(self) -> list[dict[str, Any]]:
        if self.is_gone:
            raise ConnectionError("the cluster is gone")
        return [{"NodeID": NODE, "Alive": True}]

    def kill(self, actor: object) -> None: ...

    def is_initialized(self) -> bool:
        return True


class FakeRemote:
    """The remote class of Home."""

    def __init__(self, home: Answers) -> None:
        self.home = home

    def options(self, **_options: Any) -> FakeRemote:
        return self

    def remote(self, *_args: Any) -> Answers:
        return self.home


@pytest.fixture
def gathering(leak_check: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    leak_check.mkdir(exist_ok=True)
    home = Answers({"positions": {}, "wanting": True, "close": 0})
    process = FakeProcess(str(tmp_path / "own"), FakeIdentity(node=NODE, session_dir=str(tmp_path)))
    monkeypatch.setattr(Gathering, "_strategies", staticmethod(lambda: lambda node, soft: node))
    monkeypatch.setattr(told, "ended_attempts", lambda job: ["told"])
    os.makedirs(tmp_path / "own")
    return Gathering(cast(Any, FakeRay(home)), cast(Any, process))


def test_a_job_has_a_session_that_lives_until_it_stops(gathering: Gathering, tmp_path: Path) -> None:
    assert is_alive(gathering.path) and open_session(gathering.path).path == gathering.path
    assert (tmp_path / "own" / HERE).exists()  # by which workers of this node know that Home reads for them
    gathering.stop()
    assert not is_alive(gathering.path)


def test_a_job_is_no_session_that_is_about_to_start(gathering: Gathering) -> None:
    assert sessions._starting("auto", os.path.dirname(gathering.path)) == ""
    gathering.stop()


def test_what_is_missing_at_the_end_is_asked_of_ray(gathering: Gathering) -> None:
    gathering.stop()
    assert ("close", (["told"],)) in vars(gathering.home)["asked"]


def test_the_end_of_the_cluster_does_not_fail_the_program(gathering: Gathering) -> None:
    cast(Any, gathering.ray).is_gone = True
    gathering.stop()
    assert not is_alive(gathering.path)
