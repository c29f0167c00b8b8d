"""What a capsule of a task or call holds, and when there is none."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from sundog.capsules import store
from sundog.capsules.rows import Outcome, read_contents
from sundog.config import Config
from sundog.owner import context
from sundog.wire import lanes as wire
from sundog.worker import capsuling
from sundog.worker.capsuling import Capsules, _bounded_pickle
from tests.owner.fakes import new_id
from tests.worker.whole import WholeWorker, whole_worker


class Model:
    """An actor."""

    def __init__(self, size: int) -> None:
        self.size = size

    def step(self, x: int) -> int:
        return x + self.size


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[WholeWorker]:
    (tmp_path / "capsules").mkdir(mode=0o700)
    with whole_worker(tmp_path, Config(record_enabled=False, capsule_max_bytes=10_000)) as made:
        yield made


def _spec(args: object = None, **more: Any) -> Any:
    return {"blob": cloudpickle.dumps(Model), "args": args, "extra": None, "class_name": "Model", **more}


def _kept(tmp_path: Path) -> Any:
    [found] = store.capsules_of(str(tmp_path))
    return found.header, read_contents(found.path)


def _acts(worker: WholeWorker, spec: Any) -> Capsules:
    worker.executor.actor, worker.executor.actor_id = Model(2), b"a" * 16
    context.facts.actor_class = "Model"
    made = worker.executor.inspection.capsules
    made.constructed(spec)
    return made


def test_a_task_is_kept_with_its_function_arguments_and_values_of_refs(
    worker: WholeWorker, tmp_path: Path
) -> None:
    number = worker.knows(lambda a: a)
    worker.executor.load(worker.lane.fns[number])
    context.facts.resources = {"CPU": 2.0}
    values = [(new_id(), (wire.OK, pickle.dumps("big"), None, None))]
    item = worker.item(
        number, 1, extra={wire.EXTRA_VALUES: values, wire.EXTRA_ATTEMPT: 2, wire.EXTRA_RETURNS: 3}
    )
    worker.executor.inspection.capsules.keep(worker.lane, item, "f", Outcome("ValueError", "no"), None)
    header, contents = _kept(tmp_path)
    assert (header.kind, header.attempt, header.state, header.randomness) == ("task", 2, "", False)
    assert header.options == {"num_returns": "3", "CPU": "2"}
    assert len(contents.values) == 1 and contents.function and contents.method == ""


def test_a_call_is_kept_with_how_its_actor_was_made(worker: WholeWorker, tmp_path: Path) -> None:
    made = _acts(worker, _spec(pickle.dumps((2,))))
    made.keep(worker.lane, worker.item("step", 1), "step", Outcome("ValueError", "no"), None)
    header, contents = _kept(tmp_path)
    assert (header.kind, header.name, header.function, header.state) == (
        "call",
        "Model.step",
        "Model.step",
        "constructed",
    )
    assert contents.method == "step" and contents.constructor_args is not None


def test_the_state_of_the_actor_is_kept_where_it_was_asked_for(worker: WholeWorker, tmp_path: Path) -> None:
    made = _acts(worker, _spec())
    before = made.note_before()
    made.keep(worker.lane, worker.item("step", 1), "step", Outcome("", "3"), before)
    header, contents = _kept(tmp_path)
    assert header.state == "before" and pickle.loads(contents.actor_state).size == 2 and header.randomness


@pytest.mark.parametrize(
    "spec",
    [
        _spec(
            ("obj", b"", b"", None)
        ),  # in shared memory, which is given back when the constructor has returned
        _spec(b"x" * (capsuling.CONSTRUCTION_MAX_BYTES + 1)),
        _spec(extra={wire.EXTRA_VALUES: [(b"o", (wire.OK, b"", ("seg", 8, []), None))]}),
    ],
)
def test_a_call_of_an_actor_whose_construction_cannot_be_kept_leaves_no_capsule(
    worker: WholeWorker, tmp_path: Path, spec: Any
) -> None:
    made = _acts(worker, spec)
    assert made.construction is None
    made.keep(worker.lane, worker.item("step", 1), "step", Outcome("ValueError", "no"), None)
    assert store.capsules_of(str(tmp_path)) == []


def test_a_constructor_that_raised_is_kept_as_one(worker: WholeWorker, tmp_path: Path) -> None:
    context.facts.actor_class = "Model"
    made = worker.executor.inspection.capsules
    made.keep_construction(_spec(pickle.dumps((2,))), b"a" * 16, 1, ValueError("no model"))
    header, contents = _kept(tmp_path)
    assert (header.kind, header.name, header.attempt) == ("constructor", "Model.__init__", 1)
    assert contents.method == "__init__" and header.outcome.text == "no model"


def test_methods_of_the_runtime_itself_are_never_kept(worker: WholeWorker, tmp_path: Path) -> None:
    made = _acts(worker, _spec())
    made.keep(worker.lane, worker.item("__ray_ready__"), "__ray_ready__", Outcome("", ""), None)
    assert store.capsules_of(str(tmp_path)) == []


def test_very_many_failures_of_one_function_leave_few_capsules(worker: WholeWorker, tmp_path: Path) -> None:
    number = worker.knows(lambda: 1)
    worker.executor.load(worker.lane.fns[number])
    for count in range(40):
        item = worker.item(number, task=count)
        worker.executor.inspection.capsules.failed(worker.lane, item, "f", Outcome("ValueError", "no"), None)
    assert 0 < len(store.capsules_of(str(tmp_path))) <= 25


def test_a_state_that_is_too_large_or_cannot_be_pickled_is_left_out() -> None:
    import threading

    assert pickle.loads(_bounded_pickle([1, 2], 1000)) == [1, 2]
    assert _bounded_pickle(b"x" * 2000, 1000) == b"" and _bounded_pickle(threading.Lock(), 1000) == b""
