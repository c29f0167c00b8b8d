"""The local engine in one process: functions with options, environments, joining and leaving a session."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from sundog import machine
from sundog.config import Config
from sundog.engines import local, sessions
from sundog.engines.local import LocalEngine, settled
from sundog.isolation import describe_interpreter
from sundog.job_spec import JobSpec
from sundog.net.packets import Connection, make_pair
from sundog.options import TaskOptions
from sundog.owner import context
from sundog.owner.core import Owner
from sundog.wire.control import Bye, Goodbye, LogLines, Refused
from sundog.wire.lanes import EXTRA_HIDDEN, EXTRA_PER_YIELD
from tests.owner.whole import FakeNode, whole_owner


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[LocalEngine, FakeNode]]:
    with whole_owner(tmp_path) as (owner, node):
        yield LocalEngine(owner, is_driver=True), node


@pytest.fixture
def engine(both: tuple[LocalEngine, FakeNode]) -> LocalEngine:
    return both[0]


def work() -> None:
    """A function of the user's."""


def bound(engine: LocalEngine, *, generator: bool = False, **options: Any) -> Any:
    return engine.bind(work, "outer.<locals>.work", TaskOptions(**options), generator=generator)


# ---------------------------------------------------------------------- functions
def test_a_function_has_the_name_that_it_is_given_or_its_own_without_its_scope(engine: LocalEngine) -> None:
    assert (bound(engine).name, bound(engine).function) == ("work", "work")
    named = bound(engine, name="sell")
    assert (named.name, named.function) == ("sell", "work")


@pytest.mark.parametrize(
    ("given", "generator", "returns"),
    [(None, False, 1), (None, True, "streaming"), (3, True, 3), (0, False, 0)],
)
def test_a_generator_streams_unless_its_number_of_results_is_given(
    engine: LocalEngine, given: Any, generator: bool, returns: object
) -> None:
    fn = bound(engine, generator=generator, num_returns=given)
    assert fn.returns == returns and fn.one is (returns == 1)


def test_a_worker_with_a_gpu_runs_one_task_unless_more_are_allowed(engine: LocalEngine) -> None:
    assert not bound(engine).max_calls and bound(engine, num_gpus=1).max_calls == 1
    assert bound(engine, num_gpus=1, max_calls=7).max_calls == 7


def test_what_only_some_tasks_need_travels_beside_the_function(engine: LocalEngine) -> None:
    assert not bound(engine).extra
    fn = bound(
        engine,
        generator=True,
        enable_task_events=False,
        _generator_backpressure_num_objects=4,
        _num_objects_per_yield=2,
    )
    assert fn.backpressure == 4
    assert fn.extra == {"b": 4, EXTRA_PER_YIELD: 2, EXTRA_HIDDEN: True}
    assert not bound(engine, generator=True, _generator_backpressure_num_objects=-1).extra


def test_retries_are_for_all_errors_none_or_those_of_a_list(engine: LocalEngine) -> None:
    assert bound(engine).retry_exceptions is False
    assert bound(engine, retry_exceptions=True).retry_exceptions is True
    assert isinstance(bound(engine, retry_exceptions=[KeyError]).retry_exceptions, bytes)


def test_functions_with_the_same_demands_wait_in_one_queue(engine: LocalEngine) -> None:
    assert bound(engine).shape is bound(engine, name="sell").shape is not bound(engine, num_cpus=2).shape


@pytest.mark.parametrize(("text", "retries"), [("7", 7), ("-1", -1), ("-5", -1), ("", 3)])
def test_the_usual_number_of_retries_is_that_of_the_environment(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch, text: str, retries: int
) -> None:
    monkeypatch.setenv("RAY_TASK_MAX_RETRIES", text)
    assert bound(engine).max_retries == retries and bound(engine, max_retries=0).max_retries == 0


def test_a_number_of_retries_that_is_none_is_named(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_TASK_MAX_RETRIES", "many")
    with pytest.raises(ValueError, match="RAY_TASK_MAX_RETRIES='many': it must be a whole number, or -1"):
        bound(engine)


# ---------------------------------------------------------------------- environments
def test_an_environment_is_sent_once_and_has_the_same_key_each_time(
    both: tuple[LocalEngine, FakeNode], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    engine, node = both
    monkeypatch.setattr(context.facts, "session", {"path": str(tmp_path)})
    plain = engine.env_key(None)
    assert plain == engine.env_key({}) == f"{context.facts.job_id.hex()}:" and node.heard() == []
    one = engine.env_key({"env_vars": {"KIND": "tea"}})
    assert one == engine.env_key({"env_vars": {"KIND": "tea"}}) != plain
    ((kind, key, shown, _),) = node.heard()
    assert (kind, key, shown) == ("env", one, {"env_vars": {"KIND": "tea"}})
    monkeypatch.setattr(context.facts, "runtime_env", {"env_vars": {"KIND": "tea"}})
    assert engine.env_key(None) == one  # that of the process itself


# ---------------------------------------------------------------------- joining
def test_a_program_that_joins_has_the_settings_of_the_session_but_for_its_own() -> None:
    session: dict[str, object] = {"dedup_logs": False, "full_tracebacks": True}
    found = settled(Config(dedup_logs_agg_window_s=9.0), session)
    assert (found.dedup_logs, found.full_tracebacks, found.dedup_logs_agg_window_s) == (False, True, 9.0)
    assert settled(Config(full_tracebacks=True), {"full_tracebacks": False}).full_tracebacks


class FakeInfo:
    name = "session_1"


def join(monkeypatch: pytest.MonkeyPatch, folder: Path, answer: Callable[[Connection], None]) -> None:
    """Join a session whose node does this."""
    ours, theirs = make_pair()
    node = Connection(theirs, str(folder))
    answer(node)
    monkeypatch.setattr(sessions, "connect", lambda _info: Connection(ours, str(folder)))
    try:
        local.join(
            cast(Any, FakeInfo()), Config(), JobSpec(describe_interpreter(), str(folder)), log_to_driver=False
        )
    finally:
        theirs.close()


def test_a_program_that_the_session_refuses_hears_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(RuntimeError, match="another Python"):
        join(monkeypatch, tmp_path, lambda node: node.send(Refused("This session runs on another Python.")))


def test_a_session_that_ends_meanwhile_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ConnectionError, match="session_1 ended while this program joined it"):
        join(monkeypatch, tmp_path, lambda node: node.sock.shutdown(1))


# ---------------------------------------------------------------------- what workers print, and the end
class FakeLogs:
    def feed(self, batch: object) -> None:
        raise AssertionError("not under the lock")


def test_output_of_workers_is_shown_by_another_thread_and_dropped_if_nobody_wants_it(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    brought: list[tuple[object, ...]] = []
    monkeypatch.setattr(engine.owner.deliveries, "bring", lambda *call: brought.append(call))
    engine.heard_lines(LogLines(("a",)))
    assert brought == [] and engine._heard == 0
    logs = engine._logs = cast(Any, FakeLogs())
    engine.heard_lines(LogLines(("b",)))
    assert brought == [(logs.feed, ("b",))] and engine._heard == 1


def test_a_driver_that_leaves_waits_for_the_last_output_and_closes_its_end(
    both: tuple[LocalEngine, FakeNode],
) -> None:
    engine, node = both
    engine.heard_goodbye(Goodbye())
    engine._say_goodbye()
    assert node.heard() == [tuple(Bye())] and node.connection.receive() is None  # the end of what it says


def test_a_node_that_does_not_answer_is_waited_for_while_output_comes_or_it_gets_no_processor(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []

    def wait(_event: threading.Event, _seconds: float) -> bool:
        looks.append(1)
        if len(looks) == 2:
            engine._heard += 1  # a batch of lines came
        return False

    starved = iter([True, False])
    monkeypatch.setattr(local, "_wait_in_slices", wait)
    monkeypatch.setattr(local, "_is_starved", lambda _deadline: next(starved))
    engine._say_goodbye()
    # The first look has nothing to compare with; the second saw lines; the third a node without processor time.
    assert len(looks) == 4


def test_a_time_in_which_this_process_stood_still_is_one_slice() -> None:
    class Event:
        waits: list[float] = []

        def wait(self, seconds: float) -> bool:
            self.waits.append(seconds)
            return len(self.waits) == 3

    assert local._wait_in_slices(cast(Any, Event()), 2.0) and Event.waits == [0.1] * 3
    assert not local._wait_in_slices(threading.Event(), 0.0)


def test_a_node_is_starved_only_if_it_is_known_and_wants_a_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "wants_processor", lambda pid: pid == 41)
    later = time.monotonic() + 1000
    for pid, deadline, starved in (
        (41, later, True),
        (41, 0.0, False),
        (42, later, False),
        (None, later, False),
    ):
        monkeypatch.setattr(context.facts, "session", {"node_pid": pid})
        assert local._is_starved(deadline) is starved


def test_a_node_that_somebody_else_has_waited_for_is_gone(engine: LocalEngine) -> None:
    engine._await_node(1)  # no child of this process: nothing to wait for


@pytest.mark.parametrize("free", [True, False], ids=["with a descriptor", "with none free"])
def test_a_node_is_reaped_when_it_ends_and_killed_when_it_does_not(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch, free: bool
) -> None:
    def refuse(_pid: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    if not free:
        monkeypatch.setattr(os, "pidfd_open", refuse)
    monkeypatch.setattr(local, "_END_S", 0.05)
    for program in ("pass", "import time; time.sleep(600)"):
        pid = os.posix_spawn(sys.executable, [sys.executable, "-I", "-c", program], {})
        engine._await_node(pid)
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def test_a_program_notes_the_processor_time_that_it_used(engine: LocalEngine) -> None:
    notes: list[tuple[str, dict[str, float]]] = []

    class FakeRing:
        def note(self, name: str, **facts: float) -> None:
            notes.append((name, facts))

    owner: Owner = engine.owner
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, "ring", FakeRing())
        engine.note_use()
    ((name, facts),) = notes
    assert name == "used" and facts["cpu_s"] >= 0 and facts["until_s"] >= facts["joined_s"] == engine.joined_s


def test_sigterm_leaves_like_an_exit_with_its_number() -> None:
    with pytest.raises(SystemExit) as left:
        local._leave(signal.SIGTERM, None)
    assert left.value.code == signal.SIGTERM


def test_a_line_of_output_is_a_progress_bar_only_if_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []

    class FakeBars:
        def show_line(self, line: str) -> bool:
            drawn.append(line)
            return True

    monkeypatch.setattr(local, "import_module", lambda _name: FakeBars())
    assert not local._draws_bar("a line") and drawn == []
    assert local._draws_bar("__ray_tqdm_magic_token__{}") and drawn == ["__ray_tqdm_magic_token__{}"]
