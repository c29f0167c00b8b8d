"""What this process does now, in numbers."""

from __future__ import annotations

from typing import Any

from sundog.owner.pulse import pulse
from sundog.owner.rows import DONE, QUEUED, SENT, WAITING, Fn, Task
from sundog.wire.lanes import EXTRA_HIDDEN, EXTRA_NAME
from sundog.wire.looks import WaitingTasks
from tests.owner.fakes import make_owner


class FakeRunner:
    """Runs children inside the waiting task."""

    depth = 2

    def run_here(self, _oids: list[bytes]) -> bool:
        return False


def _owner(*tasks: tuple[str, int, int, dict[str, Any] | None]) -> Any:
    owner = make_owner()
    owner.call_of = lambda _frame: None
    for number, (name, state, attempt, extra) in enumerate(tasks):
        task = Task(bytes([number]) * 16, Fn(1, name), None, 0.0)
        task.state, task.attempt, task.extra = state, attempt, extra
        owner.table[task.id] = task
    return owner


def test_tasks_are_counted_by_name_and_by_what_they_wait_for() -> None:
    found = pulse(
        _owner(
            ("f", WAITING, 0, None),
            ("f", QUEUED, 0, None),
            ("f", QUEUED, 2, None),
            ("f", SENT, 1, None),
            ("f", DONE, 0, None),
            ("g", SENT, 0, None),
        )
    )
    assert set(found.waiting) == {
        WaitingTasks("f", 1, 2, 1, retries=(0, 1, 1)),
        WaitingTasks("g", 0, 0, 1, retries=(0, 0, 0)),
    }
    assert found.calls == () and found.nested == 0


def test_a_task_counts_under_the_name_that_it_was_given_and_an_inner_one_not_at_all() -> None:
    found = pulse(
        _owner(
            ("f", QUEUED, 0, {EXTRA_NAME: "step 1"}),
            ("f", QUEUED, 0, {EXTRA_HIDDEN: True}),
            ("f", QUEUED, 0, {"other": 1}),
        )
    )
    assert {each.name: each.worker for each in found.waiting} == {"step 1": 1, "f": 1}


def test_children_that_run_in_the_place_of_their_parent_are_counted() -> None:
    owner = _owner()
    owner.run_here = FakeRunner().run_here
    assert pulse(owner).nested == 2 and pulse(owner).waiting == ()
