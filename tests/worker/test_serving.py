"""The worker's main thread: what it reads from lanes, hands back, cancels, and when it ends."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sundog.exceptions import TaskCancelledError
from sundog.owner import context, interrupts
from sundog.state.wait_facts import MAIN, RunSlot
from sundog.wire import lanes as wire
from sundog.worker import serving as module
from tests.worker.whole import WholeWorker, error_in, whole_worker


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[WholeWorker]:
    with whole_worker(tmp_path) as made:
        yield made


def _sends(worker: WholeWorker, *items: wire.Item, setup: Any = None) -> None:
    """A packet arrives on the lane and is run."""
    worker.ours.send(pickle.dumps((None, list(items), [], setup), 5))
    worker.serving._take(worker.lane, -1)


def _kinds(worker: WholeWorker) -> list[int]:
    return [reply[1] for reply in worker.replies()]


def _told(worker: WholeWorker) -> list[str]:
    return [message[0] for message in worker.node.heard()]


def test_tasks_of_one_packet_run_in_order_and_are_answered(worker: WholeWorker) -> None:
    number = worker.knows(lambda a: a * 2)
    _sends(worker, worker.item(number, 1, task=1), worker.item(number, 2, task=2))
    assert [(reply[0], pickle.loads(reply[2])) for reply in worker.replies()] == [
        (b"\1" * 16, 2),
        (b"\2" * 16, 4),
    ]
    assert worker.serving.current is None


def test_a_lane_whose_owner_is_gone_is_dropped(worker: WholeWorker) -> None:
    worker.ours.close()
    worker.serving._take(worker.lane, -1)
    assert worker.serving.lanes == {}


@pytest.mark.parametrize(("turn_s", "spins_on"), [(2e-6, True), (8e-5, False)])
def test_a_worker_counts_a_packet_as_late_that_came_while_another_thread_used_the_core(
    worker: WholeWorker, monkeypatch: pytest.MonkeyPatch, turn_s: float, spins_on: bool
) -> None:
    now = 0.0

    def yield_core() -> None:
        nonlocal now
        now += turn_s
        worker.ours.send(b"packet")

    monkeypatch.setattr(module, "_perf", lambda: now)
    monkeypatch.setattr(os, "sched_yield", yield_core)
    worker.serving.spins.spin_s = 1e-4
    for _ in range(3):
        assert worker.serving._spin(worker.lane) == len(b"packet")
    assert (worker.serving.spins.next_s() > 0) is spins_on


def test_a_worker_that_shall_stop_ends_its_spin(worker: WholeWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = 0

    def yield_core() -> None:
        nonlocal turns
        turns += 1
        worker.serving.stopping = "told to"

    monkeypatch.setattr(module, "_perf", lambda: turns * 2e-6)
    monkeypatch.setattr(os, "sched_yield", yield_core)
    worker.serving.spins.spin_s = 1e-4
    assert worker.serving._spin(worker.lane) == -1 and turns == 1


def test_a_spin_ends_with_the_owner_at_the_other_end(worker: WholeWorker) -> None:
    worker.ours.close()
    assert worker.serving._spin(worker.lane) == 0


def test_what_an_owner_sends_with_its_tasks_is_taken_first(worker: WholeWorker) -> None:
    recycled: list[tuple[str, int]] = []
    worker.owner.segments.recycle = lambda name, size: recycled.append((name, size))  # type: ignore[method-assign]
    import cloudpickle

    fns = [(5, b"h", cloudpickle.dumps(lambda: 7), "seven", 1, False, 0)]
    worker.ours.send(pickle.dumps((fns, [worker.item(5)], [("seg", 8)], None), 5))
    worker.serving._take(worker.lane, -1)
    assert recycled == [("seg", 8)] and pickle.loads(worker.replies()[0][2]) == 7


def test_a_lease_is_prepared_for_once(worker: WholeWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    applied: list[int] = []
    monkeypatch.setattr(worker.serving, "apply_setup", lambda setup: applied.append(setup["lease"]))
    number = worker.knows(lambda: 1)
    for lease in (3, 3, 4):
        _sends(worker, worker.item(number), setup={"lease": lease})
    assert applied == [3, 4]


def test_before_a_task_blocks_its_cpu_and_the_tasks_behind_it_go_back(worker: WholeWorker) -> None:
    number = worker.knows(lambda: 1)
    worker.serving.todo.append((worker.lane, worker.item(number, task=2)))
    worker.serving.current = b"\1" * 16
    worker.serving.before_block()
    assert [(reply[1], reply[2]) for reply in worker.replies()] == [
        (wire.R_BACK, [b"\2" * 16]),
        (wire.R_BLOCKED, True),
    ]
    worker.serving.after_block()
    assert [(reply[1], reply[2]) for reply in worker.replies()] == [(wire.R_BLOCKED, False)]
    assert _told(worker) == ["blocked", "unblocked"] and not worker.serving.todo
    worker.serving.current = None


def test_a_wait_outside_of_a_task_gives_nothing_back(worker: WholeWorker) -> None:
    worker.serving.before_block()
    worker.serving.after_block()
    assert worker.replies() == [] and _told(worker) == []


def test_a_task_in_a_debugger_keeps_its_cpu_but_not_the_tasks_behind_it(worker: WholeWorker) -> None:
    worker.serving.todo.append((worker.lane, worker.item(1, task=2)))
    worker.serving.before_pause()
    worker.serving.before_pause()
    assert _kinds(worker) == [wire.R_BACK, wire.R_BLOCKED] and _told(worker) == []
    worker.serving.after_pause()
    worker.serving.after_pause()
    assert _kinds(worker) == [wire.R_BLOCKED]


def test_unread_tasks_are_handed_back_too(worker: WholeWorker) -> None:
    worker.ours.send(pickle.dumps((None, [worker.item(1, task=3), worker.item(1, task=4)], [], None), 5))
    worker.serving.hand_back()
    [reply] = worker.replies()
    assert (reply[1], reply[2]) == (wire.R_BACK, [b"\3" * 16, b"\4" * 16])


def test_a_task_that_waits_here_is_cancelled_at_once_and_one_still_in_a_socket_when_it_comes(
    worker: WholeWorker,
) -> None:
    number = worker.knows(lambda: 1)
    worker.serving.todo.append((worker.lane, worker.item(number, task=2)))
    worker.serving.cancel(b"\2" * 16, False)
    [reply] = worker.replies()
    assert reply[0] == b"\2" * 16 and isinstance(error_in(reply), TaskCancelledError) and reply[2][0] is None
    worker.serving.cancel(b"\3" * 16, False)
    _sends(worker, worker.item(number, task=3), worker.item(number, task=4))
    assert [reply[1] for reply in worker.replies()] == [wire.R_ERROR, wire.R_ONE]


def test_cancels_of_tasks_that_never_come_are_forgotten(
    worker: WholeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_EARLY_MAX", 3)
    for number in range(10):
        worker.serving.cancel(bytes([number]) * 16, False)
    assert len(worker.executor.cancelled_early) == 3 and bytes([9]) * 16 in worker.executor.cancelled_early


def test_a_running_task_is_interrupted_with_its_children(
    worker: WholeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[tuple[int, int]] = []
    monkeypatch.setattr(signal, "pthread_kill", lambda *call: killed.append(call))
    children: list[bytes] = []
    worker.owner.cancels.cancel_children_of = children.append  # type: ignore[method-assign, assignment]
    worker.serving.current = b"\1" * 16
    worker.serving.cancel(b"\1" * 16, True)
    assert killed == [(worker.serving.main_thread, signal.SIGINT)] and children == [b"\1" * 16]
    assert worker.executor.interrupting == b"\1" * 16
    worker.serving.current = None


def test_a_call_of_an_actor_is_not_interrupted_but_told_when_it_asks(
    worker: WholeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[object] = []
    monkeypatch.setattr(signal, "pthread_kill", lambda *call: killed.append(call))
    worker.executor.actor_id, worker.serving.current = b"a" * 16, b"\1" * 16
    worker.serving.cancel(b"\1" * 16, False)
    assert killed == [] and worker.executor.attention and b"\1" * 16 in worker.executor.cancelled
    worker.serving.current = None


def test_an_interrupt_raises_only_in_the_task_that_is_to_be_cancelled(
    worker: WholeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    later: list[object] = []
    monkeypatch.setattr(interrupts, "send_later", lambda *call: later.append(call))
    worker.serving.interrupt(signal.SIGINT, None)
    worker.serving.current = worker.executor.interrupting = b"\1" * 16
    worker.serving.interrupt(signal.SIGINT, None)
    assert len(later) == 1  # the user's code has not begun: again in a moment
    token = context.running.set((b"\1" * 16, "f", 0, b""))
    with pytest.raises(KeyboardInterrupt):
        worker.serving.interrupt(signal.SIGINT, None)
    context.running.reset(token)
    worker.serving.current = None


def test_a_worker_whose_modules_were_edited_hands_all_back_and_says_so(
    worker: WholeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker.serving._found_stale(["/project/model.py"])
    assert worker.serving.retired and worker.node.heard() == [("stale", "/project/model.py")]
    _sends(worker, worker.item(worker.knows(lambda: 1)))
    assert _kinds(worker) == [wire.R_BACK, wire.R_EXIT]


def test_where_reloading_is_off_an_edited_module_is_warned_of_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from sundog.config import Config

    with whole_worker(tmp_path, Config(record_enabled=False, reload_changed_modules=False)) as worker:
        for _ in range(2):
            worker.serving._found_stale(["/project/model.py"])
        assert not worker.serving.retired
    assert capsys.readouterr().err.count("/project/model.py changed on disk") == 1


def test_after_max_calls_a_worker_ends_unless_others_need_what_it_owns(worker: WholeWorker) -> None:
    number = worker.knows(lambda: 1, calls=1)
    worker.owner.actors.scopes.add(b"a handle")
    _sends(worker, worker.item(number))
    assert worker.serving.stopping is None and worker.serving.retired
    worker.owner.actors.scopes.clear()
    worker.serving.retired = False
    _sends(worker, worker.item(number))
    assert worker.serving.stopping == "<lambda> has run max_calls=1 times here"


def test_the_loop_ends_with_its_reason_and_constructs_first(worker: WholeWorker) -> None:
    made: list[bool] = []

    def construct() -> None:
        made.append(True)
        worker.serving.finish_then_stop("its last handle went out of scope")

    worker.serving.construct = construct
    assert worker.serving.run() == "its last handle went out of scope" and made == [True]


def test_the_loop_runs_what_comes_until_it_is_told_to_stop(worker: WholeWorker) -> None:
    def last() -> str:
        worker.serving.finish_then_stop("stopped")
        return "done"

    worker.executor.codes[b"1"] = last
    worker.ours.send(pickle.dumps((None, [worker.item(worker.knows(lambda: 0))], [], None), 5))
    assert worker.serving.run() == "stopped"
    assert pickle.loads(worker.replies()[0][2]) == "done"


def test_an_actor_says_which_process_it_is_on_each_new_lane(worker: WholeWorker) -> None:
    import os
    import socket

    worker.executor.actor_id = b"a" * 16
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    worker.serving.add_lane(b"new", theirs.detach())
    worker.serving._flush_all()
    [reply] = pickle.loads(ours.recv(1 << 16))
    assert reply == (worker.owner.me, wire.R_WORKER, os.getpid(), 0.0)
    ours.close()


def test_where_calls_run_is_told_to_the_search_for_deadlocks(worker: WholeWorker) -> None:
    assert worker.serving.places(b"") == ((RunSlot(MAIN, 1, ()),), (), True)
    worker.serving.current = b"\1" * 16
    assert worker.serving.places(b"")[0][0].running == (b"\1" * 16,)
    worker.serving.current = None
