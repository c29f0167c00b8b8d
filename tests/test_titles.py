"""When a worker's title changes; what it says in a real process is in tests/integration/test_titles.py."""

from __future__ import annotations

import pytest

from sundog import titles


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    said: list[str] = []
    monkeypatch.setattr(titles, "_set", said.append)
    return said


def test_a_worker_is_idle_or_named_after_its_task(shown: list[str]) -> None:
    title = titles.Title()
    title.runs("f", 1.0)
    title.seen("")
    assert shown == ["sundog::IDLE", "sundog::f", "sundog::IDLE"]


def test_an_actor_is_named_after_its_class_and_method(shown: list[str]) -> None:
    title = titles.Title()
    title.become("Counter")
    title.runs("add", 1.0)
    title.seen("")
    assert shown[1:] == ["sundog::Counter", "sundog::Counter.add", "sundog::Counter"]


def test_a_title_says_when_the_next_may_come(shown: list[str]) -> None:
    title = titles.Title()
    title.runs("f", 5.0)
    assert title.name == "f"
    assert 5.0 < title.again_at < 5.1


def test_names_are_escaped_and_bounded(shown: list[str]) -> None:
    titles.show("a\nb")
    titles.show("x" * 10_000)
    titles.show("\ud800")
    assert shown[0] == "sundog::a\\nb"
    assert len(shown[1]) < 300
    assert shown[2].isprintable()


def test_without_the_package_there_is_no_title_and_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(titles, "_set", None)
    titles.Title().runs("f", 1.0)
