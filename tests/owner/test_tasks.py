"""Submitting tasks: functions pickled once, numbers for variants, queues, refs."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from sundog.ids import RESULT_SUFFIX, result_id
from sundog.owner import context, tasks
from sundog.owner.rows import QUEUED, WAITING, Shape, Task
from sundog.owner.tasks import Tasks
from sundog.refs import ObjectRef
from sundog.state.lease_spec import LeaseSpec
from tests.owner.fakes import make_owner


class FakeDispatch:
    """Notes what is to be sent."""

    batch_max = 4

    def __init__(self) -> None:
        self.sent: list[Shape] = []
        self.kicks = 0

    def send_now(self, shape: Shape) -> None:
        self.sent.append(shape)

    def kick(self) -> None:
        self.kicks += 1


class FakeArguments:
    """Arguments that are values, or a ref that is not ready."""

    def __init__(self) -> None:
        self.awaited: list[Task] = []

    def pack(self, task: Task, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        task.args = b"packed"
        if any(type(each) is ObjectRef for each in args):
            task.state = WAITING

    def await_all(self, task: Task) -> None:
        self.awaited.append(task)


class FakeTimeouts:
    """Tasks whose time in the queue is bounded."""

    def __init__(self) -> None:
        self.watched: list[Task] = []

    def watch(self, task: Task) -> None:
        self.watched.append(task)


@pytest.fixture
def submitter() -> Any:
    owner = make_owner()
    return Tasks(owner, FakeDispatch(), FakeArguments(), owner.streams, FakeTimeouts())  # type: ignore[arg-type]


def _fn(submitter: Any, function: object = len) -> Any:
    fn = submitter.make_fn(function, "f")
    submitter.number(fn)
    fn.shape = Shape(1, LeaseSpec(resources=(("CPU", 1.0),), env_key=""), {})
    return fn


def test_a_function_is_pickled_once_and_forgotten_when_it_dies(submitter: Any) -> None:
    def once() -> int:
        return 1

    assert submitter.make_fn(once, "f").code is submitter.make_fn(once, "g").code
    assert len(submitter._codes) == 1
    del once
    gc.collect()
    assert submitter._codes == {}


def test_variants_that_a_worker_need_not_tell_apart_share_a_number(submitter: Any) -> None:
    first, same, other = (submitter.make_fn(len, "f") for _ in range(3))
    other.returns = 2
    for fn in (first, same, other):
        submitter.number(fn)
    assert first.number == same.number != other.number


def test_a_program_that_makes_new_variants_without_end_keeps_a_bounded_table(submitter: Any) -> None:
    for number in range(2 * tasks._NUMBERS_MAX):
        fn = submitter.make_fn(len, f"name {number}")
        submitter.number(fn)
    assert len(fn.code.numbers) <= tasks._NUMBERS_MAX


def test_a_function_that_cannot_be_pickled_says_which_and_why(submitter: Any) -> None:
    import threading

    lock = threading.Lock()

    def guarded() -> object:
        return lock

    with pytest.raises(TypeError, match=r"the remote function or class guarded") as raised:
        submitter.make_fn(guarded, "guarded")
    assert "lock" in str(raised.value)


def test_a_function_that_captured_too_much_is_refused(
    submitter: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "FUNCTION_MAX_BYTES", 1 << 20)
    large = b"x" * (1 << 20)
    with pytest.raises(
        ValueError, match=r"remote function f is too large: 1 MiB pickled, of at most 1 MiB.*put"
    ):
        submitter.make_fn(lambda: large, "f")
    large_class = type("Large", (), {"data": large})
    with pytest.raises(ValueError, match=r"The actor Large is too large"):
        submitter.make_fn(large_class, "Large")


def test_refs_in_a_closure_are_held_for_ever(submitter: Any) -> None:
    oid = submitter.basics.objects.put(1)
    ref: ObjectRef[int] = ObjectRef(oid, None)
    submitter.make_fn(lambda: ref, "f")
    assert submitter.basics.refs.owned[oid].local == 2  # the ref's own, and one more that never ends


def test_the_first_task_asks_for_a_worker_and_later_ones_wait_for_a_full_batch(submitter: Any) -> None:
    fn = _fn(submitter)
    task = submitter.submit(fn, (), {})
    assert submitter.dispatch.sent == [fn.shape] and submitter.basics.table[task.id] is task
    fn.shape.wanted = 1
    for _ in range(3):
        submitter.submit(fn, (), {})
    assert len(submitter.dispatch.sent) == 1 and submitter.dispatch.kicks == 1
    assert len(fn.shape.queue) == 4 and task.state == QUEUED


def test_a_task_whose_argument_is_not_ready_waits_outside_of_the_queue(submitter: Any) -> None:
    fn = _fn(submitter)
    ref: ObjectRef[int] = ObjectRef(result_id(b"t" * 16, 1), None)
    task = submitter.submit(fn, (ref,), {})
    assert submitter.arguments.awaited == [task] and not fn.shape.queue
    assert task.id in submitter.basics.table


def test_a_task_of_a_worker_notes_which_task_submitted_it(submitter: Any) -> None:
    submitter.basics.notes_parents = True
    token = context.running.set((b"parent", "g", 0, b""))
    task = submitter.submit(_fn(submitter), (), {})
    context.running.reset(token)
    assert task.parent == b"parent"


@pytest.mark.parametrize(("returns", "indexes"), [(1, [1]), (3, [1, 2, 3]), ("dynamic", [1]), (0, None)])
def test_a_call_gives_as_many_refs_as_its_options_say(
    submitter: Any, returns: object, indexes: list[int] | None
) -> None:
    fn = _fn(submitter)
    fn.returns = returns
    task = Task(b"t" * 16, fn, None, 0.0)
    found = submitter.refs_of(task, None, 0)
    refs = found if isinstance(found, list) else [] if found is None else [found]
    expected = None if indexes is None else [result_id(task.id, index) for index in indexes]
    assert ([ref.binary() for ref in refs] or None) == expected
    assert result_id(task.id, 1) == task.id + RESULT_SUFFIX
    assert submitter.timeouts.watched == []


def test_a_bound_on_the_time_in_the_queue_is_watched(submitter: Any) -> None:
    fn = _fn(submitter)
    fn.queue_timeout_s = 3.0
    task = Task(b"t" * 16, fn, None, 0.0)
    submitter.refs_of(task, None, 0)
    assert submitter.timeouts.watched == [task]
