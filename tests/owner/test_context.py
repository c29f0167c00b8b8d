"""What runs in this thread, and what tasks submitted here inherit."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from sundog.owner import context
from sundog.serialize.pack import pack


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(context, "facts", context.ProcessFacts())
    monkeypatch.setattr(context, "main_task", None)
    yield


def test_nothing_runs_in_a_driver_or_between_tasks() -> None:
    assert context.current() is None and context.current_id() is None


def test_a_call_of_this_thread_comes_before_the_task_of_the_main_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(context, "main_task", (b"main", "f", 0, b"owner"))
    token = context.running.set((b"call", "A.step", 2, b"other"))
    try:
        assert context.current() == context.Running(b"call", "A.step", 2, b"other")
        assert context.current_id() == b"call"
    finally:
        context.running.reset(token)
    assert context.current() == context.Running(b"main", "f", 0, b"owner")


def test_a_call_of_one_thread_is_not_that_of_another() -> None:
    token = context.running.set((b"call", "A.step", 0, b"o"))
    found: list[bytes | None] = []
    other = threading.Thread(target=lambda: found.append(context.current_id()))
    other.start()
    other.join()
    context.running.reset(token)
    assert found == [None]


def test_what_tasks_inherit_is_counted_only_when_it_changes() -> None:
    before = context.generation
    context.inherit(b"group", True)
    context.inherit(b"group", True)
    assert context.generation == before + 1
    assert (context.facts.placement_group, context.facts.capture_child_tasks) == (b"group", True)
    context.inherit(None, False)
    assert context.generation == before + 2


def test_the_handle_of_an_actor_is_unpacked_when_it_is_asked_for_and_once() -> None:
    facts = context.ProcessFacts()
    assert facts.actor_handle() is None
    facts.packed_handle = pack(["a row"], 1 << 20)[0]
    row: object = facts.actor_handle()
    assert row == ["a row"]
    assert facts.actor_handle() is facts.actor_handle()


def test_after_a_reset_a_process_knows_what_a_fresh_one_does() -> None:
    context.facts.job_id, context.facts.actor_class = b"job", "A"
    context.reset()
    assert (context.facts.job_id, context.facts.actor_class, context.facts.mode) == (b"", "", "driver")
