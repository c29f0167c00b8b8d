"""What the node tells a process that uses the API: each message reaches the part that it is for."""

from __future__ import annotations

from typing import Any

import pytest

from sundog.engines import messages
from sundog.wire import control
from sundog.wire.row import Malformed, Row, Table


class FakePart:
    """A part of the engine: notes which of its methods was called with what."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, tuple[object, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *given: self.heard.append((name, given))


class FakeEngine(FakePart):
    def __init__(self) -> None:
        super().__init__()
        self.creations: Any = FakePart()
        self.refusals: Any = FakePart()

    def for_everyone(self) -> Table:
        return messages.from_node(self.creations, self.refusals)

    def for_driver(self) -> Table:
        return messages.to_driver(self.heard_lines, self.heard_goodbye)


@pytest.mark.parametrize(
    ("message", "part", "method"),
    [
        (control.ActorCreated(b"a", b"w", []), "creations", "created"),
        (control.ActorDead(b"a", False), "creations", "dead"),
        (control.LeaseInfeasible(1, {}, "none"), "refusals", "task"),
        (control.ActorInfeasible("Model", {}, "none"), "refusals", "actor"),
        (control.EnvFailed("key", "text", {}), "refusals", "environment"),
    ],
)
def test_a_message_reaches_its_part_as_its_row(message: Row, part: str, method: str) -> None:
    engine = FakeEngine()
    assert engine.for_everyone().handle(tuple(message))  # as it comes from the wire
    assert getattr(engine, part).heard == [(method, (message,))]
    (_, (row,)) = getattr(engine, part).heard[0]
    assert type(row) is type(message)


def test_a_shortage_is_told_by_its_subject_and_text() -> None:
    engine = FakeEngine()
    assert engine.for_everyone().handle(control.WarnOnce("descriptors", "few are left"))
    assert engine.refusals.heard == [("warn_once", ("descriptors", "few are left"))]


def test_output_and_the_goodbye_are_for_drivers_alone() -> None:
    engine = FakeEngine()
    everyone, driver = engine.for_everyone(), engine.for_driver()
    for message, method in ((control.LogLines(()), "heard_lines"), (control.Goodbye(), "heard_goodbye")):
        assert not everyone.handle(message) and driver.handle(message)
        assert engine.heard[-1] == (method, (message,))


def test_the_two_tables_complete_each_other_and_one_is_not_joined_twice() -> None:
    engine = FakeEngine()
    both = engine.for_everyone().joined(engine.for_driver())
    assert control.ActorDead in both and control.Goodbye in both
    with pytest.raises(ValueError, match="two entries for the same message"):
        both.joined(engine.for_driver())


def test_a_message_of_another_version_is_refused() -> None:
    engine = FakeEngine()
    with pytest.raises(Malformed, match="'actor_dead' has 1 fields, not 2"):
        engine.for_everyone().handle(("actor_dead", b"a"))
