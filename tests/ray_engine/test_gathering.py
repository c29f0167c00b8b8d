"""The driver's side of the records."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sundog.engines import sessions
from sundog.engines.sessions import is_alive
from sundog.observe.sessions import open_session
from sundog.ray_engine import told
from sundog.ray_engine.gathering import Gathering
from sundog.ray_engine.pushes import HERE

NODE, OTHER = "aa" * 28, "bb" * 28


class Answers:
    """Stands for Home and for tasks on nodes: what is asked is noted, and answered at once."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers, self.asked = answers, []  # type: ignore[var-annotated]

    def __getattr__(self, name: str) -> Any:
        def remote(*args: Any) -> Any:
            self.asked.append((name, args))
            return self.answers.get(name)

        return SimpleNamespace(remote=remote)


@pytest.fixture
def gathering(leak_check: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    leak_check.mkdir(exist_ok=True)
    home = Answers({"positions": {}, "wanting": True, "close": 0})
    made = SimpleNamespace(options=lambda **_: SimpleNamespace(remote=lambda *_: home))
    ray = SimpleNamespace(
        remote=lambda *_, **__: lambda target: made,
        get=lambda value, timeout: value,
        nodes=lambda: [{"NodeID": NODE, "Alive": True}],
        kill=lambda actor: None,
        is_initialized=lambda: True,
    )
    facts = {"job": "01000000", "node": NODE}
    identity = SimpleNamespace(**facts, session_dir=str(tmp_path), facts=lambda: facts)
    monkeypatch.setattr(Gathering, "_strategies", staticmethod(lambda: lambda node, soft: node))
    monkeypatch.setattr(told, "ended_attempts", lambda job: ["told"])
    os.makedirs(tmp_path / "own")
    return Gathering(ray, SimpleNamespace(identity=identity, folder=str(tmp_path / "own")))  # type: ignore[arg-type]


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
    def gone() -> Any:
        raise ConnectionError("the cluster is gone")

    vars(gathering.ray)["nodes"] = gone
    gathering.stop()
    assert not is_alive(gathering.path)
