"""The public verbs before any session: what they refuse, what they say then, and where they send a program on Ray."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import sundog
from sundog import api, engines
from sundog.actor import ActorHandle
from sundog.exceptions import RaySystemError
from sundog.generator import ObjectRefGenerator
from sundog.handle_data import ClassMembers, HandleData
from sundog.refs import ObjectRef

untyped: Any = sundog  # as a program without a type checker sees it


class FakeForeign:
    """An engine on another system: notes each call, and gives back what the test chose."""

    name = "ray"

    def __init__(self, *, is_driver: bool = True) -> None:
        self.is_driver = is_driver
        self.calls: list[tuple[object, ...]] = []
        self.answer: object = "theirs"

    def is_initialized(self) -> bool:
        return True

    def describe(self) -> dict[str, object]:
        return {"session_name": "cluster"}

    def shutdown(self) -> None:
        self.calls.append(("shutdown",))

    def put(self, value: object) -> object:
        self.calls.append(("put", value))
        return self.answer

    def get(self, refs: object, timeout: float | None) -> object:
        self.calls.append(("get", refs, timeout))
        return self.answer

    def wait(self, refs: list[object], count: int, timeout: float | None, fetch_local: bool) -> object:
        self.calls.append(("wait", refs, count, timeout, fetch_local))
        return self.answer

    def cancel(self, ref: object, *, force: bool, recursive: bool) -> None:
        self.calls.append(("cancel", ref, force, recursive))

    def kill(self, actor: object, *, no_restart: bool) -> None:
        self.calls.append(("kill", actor, no_restart))

    def get_actor(self, name: str, namespace: str | None) -> object:
        self.calls.append(("get_actor", name, namespace))
        return self.answer


@contextmanager
def on(engine: FakeForeign) -> Iterator[FakeForeign]:
    """This process works on another system meanwhile."""
    plugged: Any = engine
    engines.plug_foreign(plugged)
    try:
        yield engine
    finally:
        engines.plug_foreign(None)


def a_ref() -> ObjectRef[object]:
    return ObjectRef.nil()


def a_handle() -> ActorHandle[object]:
    return ActorHandle(b"a" * 16, HandleData(ClassMembers("Counter", "Counter", {}, frozenset(), {})), None)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: untyped.get(3), ValueError, "takes a ref or a list of refs, not int"),
        (lambda: untyped.get({}), ValueError, r"get its values, get\(list\(d.values\(\)\)\)"),
        (lambda: untyped.get(a_handle()), ValueError, "call one of its methods with .remote()"),
        (lambda: untyped.wait(a_ref()), TypeError, "put the ObjectRef into a list"),
        (lambda: untyped.wait((a_ref(),)), TypeError, "takes a list of refs, not tuple"),
        (lambda: untyped.wait([a_ref()], timeout=-1), ValueError, "must not be negative, but is -1"),
        (lambda: untyped.cancel("task"), TypeError, "cancel() takes a ref, not str"),
        (lambda: untyped.kill(a_ref()), ValueError, "To stop a task use cancel(ref)"),
        (lambda: untyped.get_actor(""), ValueError, "a non-empty string"),
        (lambda: untyped.get_actor(b"name"), TypeError, "takes strings, not name=b'name'"),
        (lambda: untyped.get_actor("name", 3), TypeError, "namespace=3"),
        (lambda: untyped.get_actor("name", ""), ValueError, "leave it out to use the current namespace"),
    ],
)
def test_a_wrong_argument_is_refused_before_a_session_is_needed(
    call: Callable[[], object], error: type[Exception], words: str
) -> None:
    with pytest.raises(
        error, match=words if "\\" in words else words.replace("(", r"\(").replace(")", r"\)")
    ):
        call()
    assert not sundog.is_initialized()


@pytest.mark.parametrize(
    "call",
    [
        lambda: sundog.get(a_ref()),
        lambda: sundog.get([]),
        lambda: sundog.wait([a_ref()]),
        lambda: sundog.kill(a_handle()),
    ],
)
def test_a_verb_that_needs_what_a_session_holds_starts_none(call: Callable[[], object]) -> None:
    with pytest.raises(RaySystemError, match=r"Call sundog.init\(\)"):
        call()
    assert not sundog.is_initialized()


def test_waiting_for_nothing_needs_no_session() -> None:
    assert sundog.wait([]) == ([], [])


def test_the_setting_keeps_a_verb_from_starting_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUNDOG_enable_auto_connect", "0")
    with pytest.raises(RaySystemError, match="enable_auto_connect=0"):
        sundog.put(1)


def test_a_fork_of_a_program_in_a_session_is_told_that_it_cannot_share_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(api, "_forked_from", 4711)
    calls: list[Callable[[], object]] = [lambda: sundog.put(1), lambda: sundog.get(a_ref())]
    for call in calls:
        with pytest.raises(RuntimeError, match="was forked from process 4711"):
            call()


def test_shutdown_without_a_session_is_harmless() -> None:
    sundog.shutdown()
    sundog.shutdown()


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"local_mode": True}, RuntimeError, "local_mode has been removed"),
        ({"_temp_dir": "relative/folder"}, ValueError, "_temp_dir must be an absolute path"),
        ({"logging_level": "loud"}, ValueError, "logging_level"),
        ({"num_cpu": 1}, RuntimeError, "num_cpu"),
        ({"address": "session_nowhere"}, ConnectionError, "session_nowhere"),
        ({"address": "auto", "num_cpus": 2}, ValueError, "num_cpus"),
    ],
)
def test_init_refuses_what_is_wrong_and_leaves_no_session(
    arguments: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        sundog.init(**arguments)
    assert not sundog.is_initialized()


def test_the_verbs_of_a_program_on_another_system_are_that_systems() -> None:
    ref, handle = a_ref(), a_handle()
    with on(FakeForeign()) as other:
        assert sundog.is_initialized()
        assert sundog.put(1) == "theirs"
        assert sundog.get(ref, timeout=2.0) == "theirs"
        other.answer = ([ref], [])
        assert sundog.wait([ref], timeout=0.0, fetch_local=False) == ([ref], [])
        sundog.cancel(ref, force=True)
        sundog.kill(handle, no_restart=False)
        sundog.get_actor("total", "ours")

    assert other.calls == [
        ("put", 1),
        ("get", ref, 2.0),
        ("wait", [ref], 1, 0.0, False),
        ("cancel", ref, True, True),
        ("kill", handle, False),
        ("get_actor", "total", "ours"),
    ]


def test_init_on_another_system_is_refused_a_second_time_unless_that_is_harmless() -> None:
    with on(FakeForeign()):
        with pytest.raises(RuntimeError, match="was called twice"):
            sundog.init()
        assert sundog.init(ignore_reinit_error=True)["session_name"] == "cluster"
    with on(FakeForeign(is_driver=False)):
        assert sundog.init()["session_name"] == "cluster", "within a task it says where the task runs"


def test_a_task_cannot_end_the_session_that_it_runs_in() -> None:
    with on(FakeForeign(is_driver=False)) as other:
        with pytest.raises(RuntimeError, match=r"Only a driver can call shutdown\(\)"):
            sundog.shutdown()
    assert not other.calls
    with on(FakeForeign()) as other:
        left: list[bool] = []
        engines.when_leaving(lambda: left.append(True))
        sundog.shutdown()
    assert other.calls == [("shutdown",)] and left == [True]


def test_a_generator_of_refs_is_what_get_gives_back_for_it() -> None:
    generator: ObjectRefGenerator[object] = ObjectRefGenerator.__new__(ObjectRefGenerator)
    with pytest.raises(RaySystemError):
        sundog.get(generator)
    with pytest.raises(TypeError, match="put the ObjectRefGenerator into a list"):
        untyped.wait(generator)
