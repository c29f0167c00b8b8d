"""What an owner does later: in order, only for what has not ended, and without keeping what has."""

from __future__ import annotations

import select
from collections.abc import Callable, Iterator

import pytest

from sundog.net.spare import spare
from sundog.owner.agenda import Agenda
from sundog.owner.pauses import KnownPauses
from sundog.owner.rows import DONE, Fn, Task
from tests.shortages import no_descriptor_free


class Sockets:
    """A reactor of one descriptor."""

    fd = -1
    handler: Callable[[], None]

    def add(self, fd: int, handler: Callable[[], None]) -> None:
        self.fd, self.handler = fd, handler

    def read(self) -> None:
        assert select.select([self.fd], [], [], 10)[0], "it rings"
        self.handler()


@pytest.fixture
def sockets() -> Sockets:
    return Sockets()


@pytest.fixture
def agenda(sockets: Sockets) -> Iterator[Agenda]:
    made = Agenda(sockets, KnownPauses())  # type: ignore[arg-type]
    yield made
    made.close()


def task() -> Task:
    return Task(b"t" * 16, Fn(1, "f"), None, 0.0)


def test_an_agenda_without_entries_has_no_descriptor(agenda: Agenda, sockets: Sockets) -> None:
    assert sockets.fd == -1
    agenda.close()


def test_entries_come_in_the_order_of_their_moments(agenda: Agenda, sockets: Sockets) -> None:
    seen: list[str] = []
    agenda.after(-10, task(), seen.append, "third")
    agenda.after(-30, task(), seen.append, "first")
    agenda.after(-20, task(), seen.append, "second")
    while len(seen) < 3:
        sockets.read()
    assert seen == ["first", "second", "third"]
    assert len(agenda) == 0


def test_what_has_ended_is_not_called(agenda: Agenda, sockets: Sockets) -> None:
    seen: list[str] = []
    ended, live = task(), task()
    agenda.after(0.0, ended, seen.append, "ended")
    agenda.after(0.001, live, seen.append, "live")
    ended.state = DONE
    while not seen:
        sockets.read()
    assert seen == ["live"]


def test_an_entry_may_make_another(agenda: Agenda, sockets: Sockets) -> None:
    seen: list[int] = []

    def again(count: int) -> None:
        seen.append(count)
        if count:
            agenda.after(0.0, task(), again, count - 1)

    agenda.after(0.0, task(), again, 3)
    while len(agenda):
        sockets.read()
    assert seen == [3, 2, 1, 0]


def test_one_that_fails_does_not_silence_those_behind_it(agenda: Agenda, sockets: Sockets) -> None:
    seen: list[str] = []
    agenda.after(0.0, task(), lambda: [][0])
    agenda.after(0.0, task(), seen.append, "behind")
    with pytest.raises(IndexError):
        while True:
            sockets.read()
    while not seen:
        sockets.read()
    assert seen == ["behind"]


def test_a_million_short_tasks_with_long_bounds_do_not_pile_up(agenda: Agenda) -> None:
    live = [task() for _ in range(100)]
    for each in live:
        agenda.after(3600, each, print)
    most = 0
    for _ in range(20_000):
        short = task()
        agenda.after(3600, short, print)
        short.state = DONE
        most = max(most, len(agenda))
    assert most <= 512
    assert sum(entry[2].state != DONE for entry in agenda._heap) == len(live)


def test_what_waits_for_a_descriptor_needs_none_to_wait(agenda: Agenda, sockets: Sockets) -> None:
    seen: list[str] = []
    spare.hold()
    try:
        with no_descriptor_free():
            agenda.after(0.0, task(), seen.append, "due")
            sockets.read()
    finally:
        spare.release()
    assert seen == ["due"]
