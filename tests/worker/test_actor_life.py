"""An actor in its worker: constructed, or not; and what the node hears of it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from sundog import events
from sundog.owner import context
from sundog.serialize.pack import unpack
from sundog.wire.control import ConstructActor, TerminateActor
from sundog.worker import actor_life as module
from sundog.worker.actor_life import ActorLife, own_repr
from sundog.worker.meter import Meter
from tests.owner.fakes import OTHER
from tests.worker.whole import WholeWorker, whole_worker

ACTOR = b"a" * 16


class Counter:
    """An actor that says who it is."""

    def __init__(self, start: int = 0) -> None:
        self.total = start

    def __repr__(self) -> str:
        return f"Counter({self.total})"


class Broken:
    """An actor that cannot be made."""

    def __init__(self) -> None:
        raise ValueError("no model")


class Leaves:
    """An actor that ends in its constructor."""

    def __init__(self, code: int) -> None:
        sys.exit(code)


class Slow:
    """An asyncio actor."""

    async def step(self) -> None:
        await asyncio.sleep(0)


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WholeWorker]:
    monkeypatch.setattr(
        module, "apply_lease", lambda _setup: None
    )  # it would change this process's environment
    with whole_worker(tmp_path) as made:
        yield made


def _spec(cls: type, *args: object, **more: Any) -> Any:
    import pickle

    return {
        "setup": {},
        "name": "",
        "namespace": "ns",
        "class_name": cls.__name__,
        "handle": b"",
        "unread_max": 0,
        "owner": OTHER,
        "blob": cloudpickle.dumps(cls),
        "args": pickle.dumps(args, 5) if args else None,
        "extra": None,
        **more,
    }


def _construct(worker: WholeWorker, spec: Any, incarnation: int = 0) -> tuple[ActorLife, list[Any]]:
    life = ActorLife(worker.owner, worker.executor, worker.serving)
    life.construct(ConstructActor(ACTOR, incarnation, spec))
    construct: Any = worker.serving.construct
    construct()
    return life, worker.node.heard()


def test_an_actor_that_is_up_is_told_with_its_own_words_for_itself(worker: WholeWorker) -> None:
    _, heard = _construct(worker, _spec(Counter, 3, name="tally"), incarnation=1)
    assert heard == [("actor_ready", ACTOR, 1, [], "Counter(3)")]
    facts = context.facts
    assert (facts.actor_id, facts.actor_class, facts.actor_name) == (ACTOR, "Counter", "tally")
    assert facts.was_reconstructed and worker.serving.current is None and context.current() is None


def test_a_constructor_that_raises_ends_the_process_with_its_error(worker: WholeWorker) -> None:
    _, heard = _construct(worker, _spec(Broken))
    [(kind, actor, incarnation, packed, text)] = heard
    assert (kind, actor, incarnation) == ("actor_failed", ACTOR, 0)
    assert isinstance(unpack(packed, None).as_instanceof_cause(), ValueError)
    assert "Broken.__init__" in text and "no model" in text
    assert worker.serving.stopping == "its constructor failed"


@pytest.mark.parametrize(("cls", "failed"), [(Counter, False), (Broken, True)])
def test_the_node_hears_how_a_constructor_ended_when_that_is_recorded(
    worker: WholeWorker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cls: type, failed: bool
) -> None:
    ring = events.Ring(str(tmp_path / "11111111.ring"), 64, "worker")
    worker.owner.ring = worker.executor.ring = ring
    worker.executor.meter = Meter(ring)
    send = worker.owner.control.send
    recorded: list[Any] = []

    def look_and_send(message: Any) -> None:
        read = events.read_ring(ring.path)
        assert read is not None
        made = (each for each in read[1] if each.kind == events.CREATE)
        recorded.extend((each.name, each.task_id, each.failed) for each in made)
        send(message)

    monkeypatch.setattr(worker.owner.control, "send", look_and_send)
    _, heard = _construct(worker, _spec(cls))
    assert [message[0] for message in heard] == ["actor_failed" if failed else "actor_ready"]
    assert recorded == [(f"{cls.__name__}.__init__", ACTOR, failed)]
    ring.close()


@pytest.mark.parametrize("code", [0, 3])
def test_sys_exit_in_a_constructor_ends_the_actor_with_that_code(worker: WholeWorker, code: int) -> None:
    _, heard = _construct(worker, _spec(Leaves, code))
    assert heard == [] and worker.executor.exit_code == code
    assert worker.serving.stopping == f"sys.exit({code}) was called in its constructor (exit code {code})"


def test_a_class_that_cannot_be_loaded_fails_like_its_constructor(worker: WholeWorker) -> None:
    _, heard = _construct(worker, _spec(Counter, blob=b"cno_such_module\nA\n."))
    assert heard[0][0] == "actor_failed" and "no_such_module" in heard[0][4]


class FakeConcurrent:
    """Stands for a serving of calls that run at the same time."""

    def __init__(
        self, _owner: object, _executor: object, size: int, groups: dict[str, int], _cls: type
    ) -> None:
        self.facts = (type(self).__name__, size, groups)


def test_which_kind_of_serving_an_actor_needs_follows_from_its_class_and_options(
    worker: WholeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place, name in (
        ("async_actor", "AsyncServing"),
        ("async_groups", "GroupedServing"),
        ("threaded_actor", "ThreadedServing"),
    ):
        monkeypatch.setattr(f"sundog.worker.{place}.{name}", type(name, (FakeConcurrent,), {}))
    life = ActorLife(worker.owner, worker.executor, worker.serving)

    def kind(cls: type, **more: Any) -> Any:
        return getattr(life._choose_serving(cls, _spec(cls, **more)), "facts", None)

    assert kind(Counter) is None and kind(Counter, max_concurrency=1) is None
    assert kind(Counter, max_concurrency=4) == ("ThreadedServing", 4, {})
    assert kind(Counter, concurrency_groups={"io": 2}) == ("ThreadedServing", 1, {"io": 2})
    assert kind(Slow) == ("AsyncServing", 1000, {}) and kind(Slow, max_concurrency=1) == (
        "AsyncServing",
        1,
        {},
    )
    assert kind(Slow, concurrency_groups={"io": 2}) == ("GroupedServing", 1000, {"io": 2})


def test_the_node_ends_a_worker_after_its_task_and_an_actor_after_its_calls(worker: WholeWorker) -> None:
    life = ActorLife(worker.owner, worker.executor, worker.serving)
    life.stop("")
    assert worker.serving.stopping == "stopped" and life.run() == "stopped"
    life.terminate(TerminateActor(graceful=True))
    assert life.run() == "its last handle went out of scope"


def test_an_actor_that_is_killed_ends_now(worker: WholeWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    class Ended(BaseException):
        """Stands for the end of the process."""

    def leave(_code: int) -> None:
        raise Ended

    monkeypatch.setattr(os, "_exit", leave)
    life = ActorLife(worker.owner, worker.executor, worker.serving)
    with pytest.raises(Ended):
        life.terminate(TerminateActor(graceful=False))
    assert worker.serving.stopping is None


class BadRepr:
    """Its repr raises."""

    def __repr__(self) -> str:
        raise RuntimeError("not yet")


def test_only_a_repr_that_a_class_defines_and_that_works_is_shown() -> None:
    assert own_repr(Counter(1)) == "Counter(1)"
    assert [own_repr(each) for each in (None, Slow(), BadRepr())] == ["", "", ""]
