"""What the parts of an owner share: made without any part, and closed for all of them at once."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest

from sundog.config import Config
from sundog.events import NoRing
from sundog.net.packets import Connection, make_pair
from sundog.owner.basics import Basics
from sundog.store.segments import Segments
from tests.owner.fakes import ME


class Rounds(Basics):
    """Basics whose rounds are counted, as an owner adds what its parts do."""

    rounds = 0

    def after_round(self) -> None:
        self.rounds += 1


@pytest.fixture
def basics(tmp_path: Path) -> Iterator[Rounds]:
    ours, theirs = make_pair()
    os.mkdir(tmp_path / "shm")
    ops: deque[bytes | tuple[bytes, ...]] = deque()
    segments = Segments(str(tmp_path / "shm"), str(tmp_path / "disk"), ME, ops)
    made = Rounds(segments, ops, NoRing(), Config())
    made.begin(ME, Connection(ours, str(tmp_path)))
    yield made
    with made.lock:
        made.reactor.close()
    made.reactor.release()
    made.agenda.close()
    made.node.close()
    theirs.close()
    segments.close()
    made.deliveries.stop()


def test_the_tables_are_those_of_the_objects(basics: Rounds) -> None:
    assert basics.ready is basics.objects.ready and basics.table is basics.objects.table
    assert basics.waiters is basics.objects.waiters and basics.ops is basics.objects.ops


def test_a_round_of_the_reactor_ends_with_what_the_owner_adds(basics: Rounds) -> None:
    with basics.lock:
        basics.reactor.pump()
    assert basics.rounds == 1


def test_the_reader_stays_half_awake_while_there_are_values_or_threads_that_wait(basics: Rounds) -> None:
    assert not basics.reactor.watchful() and not basics.reactor.awaited()
    basics.ready[b"oid"] = b"value"
    basics.waiters[b"oid"] = []
    assert basics.reactor.watchful() and basics.reactor.awaited()


def test_what_ended_the_session_is_raised(basics: Rounds) -> None:
    basics.check_open()
    basics.closed = RuntimeError("over")
    with pytest.raises(RuntimeError, match="over"):
        basics.check_open()
