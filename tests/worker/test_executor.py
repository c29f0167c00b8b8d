"""Running one task: what goes back to its owner, for every way in which it may end."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sundog.exceptions import RayTaskError, TaskCancelledError, WorkerCrashedError
from sundog.owner import context
from sundog.serialize.pack import SLOTS_ALONE, Slot
from sundog.wire import lanes as wire
from sundog.worker.exits import CallCancelled
from tests.owner.fakes import OTHER, new_id
from tests.worker.whole import WholeWorker, error_in, whole_worker


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[WholeWorker]:
    with whole_worker(tmp_path) as made:
        yield made


class Counter:
    """An actor."""

    def __init__(self) -> None:
        self.total = 0
        vars(self)["shadowed"] = 1

    def add(self, number: int) -> int:
        self.total += number
        return self.total

    def shadowed(self) -> str:
        return "the method"

    def fails(self) -> None:
        raise KeyError("k")


def _acts(worker: WholeWorker) -> Counter:
    actor = Counter()
    worker.executor.actor_id, worker.executor.actor = b"a" * 16, actor
    context.facts.actor_class = "Counter"
    return actor


def test_a_small_result_goes_back_as_its_pickle(worker: WholeWorker) -> None:
    task_id, kind, payload, seconds = worker.run(worker.knows(lambda a, b: a + b), 2, 3)
    assert (task_id, kind, pickle.loads(payload)) == (b"\1" * 16, wire.R_ONE, 5)
    assert seconds >= 0 and context.current() is None


@pytest.mark.parametrize("value", [None, 1, 1.5, True, "text", [1, 2], {"a": b"b"}])
def test_any_value_is_the_result(worker: WholeWorker, value: object) -> None:
    assert pickle.loads(worker.run(worker.knows(lambda: value))[2]) == value


def test_keyword_arguments_and_values_of_refs_reach_the_function(worker: WholeWorker) -> None:
    number = worker.knows(lambda a, b=0, c=0: (a, b, c))
    args = pickle.dumps([(Slot(0),), {"c": Slot(1)}], 5)
    values = [
        (new_id(), (wire.OK, pickle.dumps("first"), None, None)),
        (new_id(), (wire.OK, pickle.dumps(9), None, None)),
    ]
    worker.executor.run(worker.lane, (b"t" * 16, number, args, 1.0, {wire.EXTRA_VALUES: values}))
    [reply] = worker.replies()
    assert pickle.loads(reply[2]) == ("first", 0, 9)


def test_a_call_with_refs_alone_runs_in_the_common_way(
    worker: WholeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = worker.knows(lambda a, b: (a, b))
    worker.run(number, 0, 0)  # the first task loads the function
    monkeypatch.delattr(type(worker.executor), "_run_any")
    values = [
        (b"a" * 20, (0, pickle.dumps(1, 5), None, None)),
        (b"b" * 20, (0, pickle.dumps("two", 5), None, None)),
    ]
    item = (b"t" * 16, number, SLOTS_ALONE[2], 1.0, {wire.EXTRA_VALUES: values})
    worker.executor.run(worker.lane, item)
    [reply] = worker.replies()
    assert reply[1] == wire.R_ONE and pickle.loads(reply[2]) == (1, "two")


def test_a_call_with_refs_and_options_runs_with_its_options(worker: WholeWorker) -> None:
    number = worker.knows(lambda a: context.current())
    values = [(b"a" * 20, (0, pickle.dumps(1, 5), None, None))]
    extra = {wire.EXTRA_VALUES: values, wire.EXTRA_ATTEMPT: 3}
    worker.executor.run(worker.lane, (b"t" * 16, number, SLOTS_ALONE[1], 1.0, extra))
    [reply] = worker.replies()
    assert pickle.loads(reply[2][0][0][1]).attempt == 3


def test_what_runs_is_known_while_it_runs(worker: WholeWorker) -> None:
    seen: list[Any] = []
    worker.executor.codes[b"1"] = lambda: seen.append(context.current())
    worker.run(worker.knows(lambda: None))
    assert seen == [context.Running(b"\1" * 16, "<lambda>", 0, OTHER)]


def test_a_function_that_the_worker_has_not_got_is_sent_back(worker: WholeWorker) -> None:
    assert worker.run(99) == (b"", wire.R_BACK, [b"\1" * 16], 0.0)


def test_an_owner_that_sends_its_functions_anew_has_the_old_ones_forgotten(worker: WholeWorker) -> None:
    number = worker.knows(lambda: 1)
    worker.executor.learn(worker.lane, [None])
    assert worker.run(number)[1] == wire.R_BACK


def test_one_definition_is_unpickled_once_for_all_owners(worker: WholeWorker) -> None:
    function = lambda: 1  # noqa: E731
    worker.executor.codes[b"1"] = function
    number = worker.knows(lambda: 2)  # its hash is b"1", too
    assert pickle.loads(worker.run(number)[2]) == 1


def test_a_function_that_cannot_be_loaded_says_what_to_install(worker: WholeWorker) -> None:
    worker.executor.learn(worker.lane, [(7, b"h", b"cno_such_module\nf\n.", "train", 1, False, 0)])
    error = error_in(worker.run(7))
    assert isinstance(error, RayTaskError) and isinstance(error, RuntimeError)
    assert "The function train() cannot be loaded in its worker" in str(error)
    assert "ModuleNotFoundError" in str(error) and "py_modules" in str(error)


def test_an_exception_goes_back_with_the_users_traceback(worker: WholeWorker) -> None:
    def broken() -> None:
        raise ValueError("no")

    reply = worker.run(worker.knows(broken))
    error = error_in(reply)
    assert isinstance(error, ValueError) and "in broken" in str(error) and reply[2][0] is False


@pytest.mark.parametrize(
    ("retry", "raised", "retried"),
    [
        (True, KeyError, True),
        (False, KeyError, False),
        ((ValueError,), KeyError, False),
        ((KeyError,), KeyError, True),
    ],
)
def test_whether_a_failed_task_may_run_again_follows_from_its_options(
    worker: WholeWorker, retry: Any, raised: type[Exception], retried: bool
) -> None:
    def broken() -> None:
        raise raised("x")

    told = pickle.dumps(retry) if isinstance(retry, tuple) else retry
    assert worker.run(worker.knows(broken, retry=told))[2][0] is retried


def test_a_result_that_cannot_be_pickled_names_its_member(worker: WholeWorker) -> None:
    import threading

    error = error_in(worker.run(worker.knows(lambda: {"lock": threading.Lock()})))
    assert isinstance(error, TypeError) and "the result of <lambda>()" in str(error) and "lock" in str(error)


def test_a_task_that_calls_sys_exit_ends_its_worker_and_says_so(worker: WholeWorker) -> None:
    worker.executor.run(worker.lane, worker.item(worker.knows(lambda: sys.exit(3))))
    failed, left = worker.replies()
    error = error_in(failed)
    assert isinstance(error, WorkerCrashedError) and error.exit_code == 3
    assert "sys.exit(3) was called in it" in str(error)
    assert left[1] == wire.R_EXIT and worker.executor.exit_code == 3


def test_a_worker_is_worn_out_after_max_calls(worker: WholeWorker) -> None:
    number = worker.knows(lambda: 1, calls=2)
    assert worker.run(number)[1] == wire.R_ONE and not worker.executor.worn_out
    worker.executor.run(worker.lane, worker.item(number))
    assert [reply[1] for reply in worker.replies()] == [wire.R_ONE, wire.R_EXIT]
    assert worker.executor.worn_out and "max_calls=2" in str(worker.executor.exit_after)


def test_an_interrupted_task_was_cancelled(worker: WholeWorker) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    worker.executor.cancelled.add(b"\1" * 16)
    reply = worker.run(worker.knows(interrupted))
    assert reply[2][0] == wire.CANCELLED and isinstance(error_in(reply), TaskCancelledError)
    assert worker.executor.cancelled == set()


def test_an_argument_whose_copy_is_gone_is_told_without_running_anything(
    worker: WholeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    number, oid = worker.knows(lambda _: 1), new_id()
    monkeypatch.setattr(worker.owner.room, "restore", lambda _name, *, directly: None)  # nor was it spilled
    args = ("obj", oid, b"", ("no-such-segment", 8, [(0, 8)]))
    worker.executor.run(worker.lane, (b"t" * 16, number, args, 1.0, None))
    [reply] = worker.replies()
    assert reply == (b"t" * 16, wire.R_LOST, (oid, "no-such-segment", []), 0.0)


# ---------------------------------------------------------------------- calls of an actor
def test_a_call_runs_the_method_and_keeps_its_state(worker: WholeWorker) -> None:
    actor = _acts(worker)
    assert [pickle.loads(worker.run("add", 2)[2]) for _ in range(2)] == [2, 4]
    assert actor.total == 4


def test_a_method_is_found_on_the_class_though_the_instance_has_such_an_attribute(
    worker: WholeWorker,
) -> None:
    _acts(worker)
    assert pickle.loads(worker.run("shadowed")[2]) == "the method"


def test_names_of_the_runtime_are_methods_of_every_actor(worker: WholeWorker) -> None:
    actor = _acts(worker)
    assert pickle.loads(worker.run("__ray_ready__")[2]) is True
    actor.total = 7
    got = worker.executor.method("__ray_call__")(lambda self, more: self.total + more, 1)
    assert got == 8


def test_a_method_that_does_not_exist_is_an_attribute_error(worker: WholeWorker) -> None:
    _acts(worker)
    assert isinstance(error_in(worker.run("nothing")), AttributeError)


def test_an_actor_that_is_terminated_leaves_its_last_call_unanswered(worker: WholeWorker) -> None:
    _acts(worker)
    worker.executor.run(worker.lane, worker.item("__ray_terminate__"))
    assert worker.replies() == []  # the node tells the callers
    assert (
        worker.executor.exit_after == "__ray_terminate__ was called on it" and not worker.executor.exit_code
    )


def test_a_call_that_was_cancelled_and_returned_all_the_same_is_cancelled(worker: WholeWorker) -> None:
    _acts(worker)
    worker.executor.attention, worker.executor.cancelled = True, {b"\1" * 16}
    assert isinstance(error_in(worker.run("add", 1)), TaskCancelledError)
    with pytest.raises(CallCancelled):
        worker.executor.cancelled = {b"x"}
        worker.executor.look_at(b"x")


def test_a_call_under_a_name_of_its_own_fails_under_that_name(worker: WholeWorker) -> None:
    _acts(worker)
    error = error_in(worker.run("fails", extra={wire.EXTRA_NAME: "step 3"}))
    assert isinstance(error, KeyError) and "step 3" in str(error)


def test_a_child_that_user_code_forked_records_nothing(worker: WholeWorker) -> None:
    worker.executor.disown()
    assert worker.executor.ring is worker.owner.ring and worker.executor.ring.started_at() == 0.0
