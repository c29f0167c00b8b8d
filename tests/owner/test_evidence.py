"""Which calls a dead process may have begun, by its flight recorder."""

from __future__ import annotations

from pathlib import Path

import pytest

from sundog import events
from sundog.options import parse_actor_options
from sundog.owner.evidence import begun_calls, is_async_class, runs_several

CALLS = [bytes([number]) * 16 for number in range(1, 6)]


def record(folder: Path, ended: list[bytes], started: bytes | None) -> str:
    """The ring of a process that ended these calls and then began one more."""
    path = str(folder / "0123456789abcdef.ring")
    ring = events.Ring(path, 64, "worker")
    name = ring.name("method")
    for number, call in enumerate(ended):
        ring.started(call, number, 0)
        ring.write(events.CALL, call, name, number, number, number + 0.5)
    if started is not None:
        ring.started(started, 99.0, 0)
    ring.close()
    return path


def test_the_call_noted_last_and_those_that_ended_have_begun(tmp_path: Path) -> None:
    path = record(tmp_path, CALLS[:2], CALLS[2])
    assert begun_calls(path, CALLS, certain=True) == set(CALLS[:3])


def test_the_calls_of_others_say_nothing_about_ours(tmp_path: Path) -> None:
    path = record(tmp_path, [b"other-caller-1--"], b"other-caller-2--")
    assert begun_calls(path, CALLS, certain=True) == set()


def test_what_was_only_read_has_not_begun(tmp_path: Path) -> None:
    path = record(tmp_path, [], None)
    ring = events.Ring(path, 64, "worker")
    ring.write(events.GET, CALLS[0], ring.name("get"), 1.0, 1.0, 2.0)
    ring.close()
    assert begun_calls(path, CALLS, certain=True) == set()


def test_without_certainty_or_recorder_all_have_begun(tmp_path: Path) -> None:
    path = record(tmp_path, [], CALLS[0])
    assert begun_calls(path, CALLS, certain=False) == set(CALLS)
    assert begun_calls(str(tmp_path / "none"), CALLS, certain=True) == set(CALLS)


def test_an_actor_that_runs_several_calls_at_a_time_is_known_by_class_and_options() -> None:
    class Plain:
        def method(self) -> None: ...

    class Awaiting:
        @staticmethod
        async def method() -> None: ...

    assert not runs_several(Plain, parse_actor_options({"max_concurrency": 1}))
    assert is_async_class(Awaiting) and runs_several(Awaiting, parse_actor_options({}))


def test_a_method_that_a_subclass_replaces_does_not_make_its_actor_asynchronous() -> None:
    class Awaiting:
        async def method(self) -> None: ...

    class Inheriting(Awaiting):
        def other(self) -> None: ...

    class Replacing(Awaiting):
        def method(self) -> None: ...  # type: ignore[override]

    assert is_async_class(Inheriting) and not is_async_class(Replacing)


@pytest.mark.parametrize("options", [{"max_concurrency": 2}, {"concurrency_groups": {"io": 1}}])
def test_threads_and_groups_run_several_calls_at_a_time(options: dict[str, object]) -> None:
    class Plain:
        def method(self) -> None: ...

    assert runs_several(Plain, parse_actor_options(options))
