"""Room in the object store: what is asked of the node, what its answers mean, and what is left when nobody waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sundog import notices
from sundog.exceptions import ObjectStoreFullError, RaySystemError
from sundog.owner.room import Room
from sundog.store.credit import Credit
from sundog.store.segments import RESTORED
from sundog.wire.control import (
    StoreAsk,
    StoreFreed,
    StoreGrant,
    StoreNotice,
    StoreRestore,
    StoreRestored,
    StoreTrim,
    StoreTrimmed,
)
from tests.owner.fakes import FakeReactor, FakeSegments, make_owner


class Segments(FakeSegments):
    """Segments within a limit."""

    def __init__(self) -> None:
        super().__init__()
        self.credit = Credit()
        self.limit_bytes = 0

    def live_within(self, limit_bytes: int, room: Room) -> None:
        self.limit_bytes = limit_bytes
        self.credit.limited(room.obtain)

    def restored_path(self, name: str) -> str:
        return f"/restored/{name}"

    def trim(self) -> tuple[Any, ...]:
        return {"live": 1}, 0, 64, {"seg": 8}


class Answering(FakeReactor):
    """A reactor in which the node's answer comes while a thread waits, or never."""

    def __init__(self) -> None:
        super().__init__()
        self.rounds: list[Callable[[], None]] = []

    def wait_in(self, block: Callable[..., object], *args: object) -> None:
        self.rounds.pop(0)()
        block(*args)


@pytest.fixture
def room() -> Any:
    owner = make_owner()
    owner.segments, owner.reactor = Segments(), Answering()
    return Room(owner, owner.control, 1000)


def _brings(room: Any, *answers: Callable[[], None]) -> None:
    room.basics.reactor.rounds = list(answers)


def test_credit_is_asked_for_with_what_this_process_has_and_got_so_far(room: Any) -> None:
    _brings(room, lambda: room.granted(StoreGrant(1, "granted", 150, "")))
    assert room.obtain(100, 40) is True
    assert room.control.sent == [StoreAsk(1, 100, 0, 0)]
    assert room.basics.segments.credit.left == 50  # what was granted beyond what was missing
    assert room.basics.segments.credit.reserved == 40
    _brings(room, lambda: room.granted(StoreGrant(2, "disk", 0, "")))
    assert room.obtain(10, 10) is False  # the caller writes to disk
    assert room.control.sent[-1] == StoreAsk(2, 10, 90, 150)
    assert room.basics.waiters == {}


def test_a_full_store_is_an_error_in_the_words_of_the_node_or_with_advice(room: Any) -> None:
    _brings(room, lambda: room.granted(StoreGrant(1, "full", 0, "The quota of job 01 is used up.")))
    with pytest.raises(ObjectStoreFullError, match=r"The quota of job 01 is used up."):
        room.obtain(100, 100)
    _brings(room, lambda: room.granted(StoreGrant(2, "full", 0, "")))
    with pytest.raises(
        ObjectStoreFullError, match=r"no room for 2,000 bytes more.*store_fallback_to_disk is off"
    ) as raised:
        room.obtain(2000, 0)
    assert (raised.value.size_bytes, raised.value.limit_bytes) == (2000, 1000)


def test_a_grant_for_which_nobody_waits_any_more_is_plain_credit(room: Any) -> None:
    def interrupted() -> None:
        room.granted(StoreGrant(1, "granted", 100, ""))
        raise KeyboardInterrupt

    _brings(room, interrupted)
    with pytest.raises(KeyboardInterrupt):
        room.obtain(100, 100)
    credit = room.basics.segments.credit
    assert (credit.left, credit.reserved) == (100, 0)
    assert room._asked == {} and room._answers == {}


def test_a_grant_that_comes_after_the_asker_gave_up_is_kept_too(room: Any) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    _brings(room, interrupted)
    with pytest.raises(KeyboardInterrupt):
        room.obtain(100, 100)
    room.granted(StoreGrant(1, "granted", 100, ""))
    assert (room.basics.segments.credit.left, room._answers) == (100, {})


def test_a_session_that_ends_meanwhile_wakes_the_asker_with_its_reason(room: Any) -> None:
    def ends() -> None:
        room.basics.closed = RaySystemError("the session has ended")
        for waiter in [call for calls in room.basics.waiters.values() for call in calls]:
            waiter(b"")

    _brings(room, ends)
    with pytest.raises(RaySystemError, match=r"the session has ended"):
        room.obtain(100, 100)


def test_room_is_never_asked_for_under_the_lock_in_which_the_answer_would_come(room: Any) -> None:
    with room.basics.lock, pytest.raises(RaySystemError, match=r"under the owner's lock"):
        room.obtain(1, 1)


@pytest.mark.parametrize(
    ("place", "found"),
    [(RESTORED, ("/restored/seg", 0)), (("/disk/seg", 512), ("/disk/seg", 512)), (None, None)],
)
def test_a_spilled_object_is_where_the_node_says(room: Any, place: object, found: object) -> None:
    _brings(room, lambda: room.restored(StoreRestored(1, place)))
    assert room.restore("seg", directly=True) == found
    assert room.control.sent == [StoreRestore(1, "seg", True)]


def test_an_object_on_a_place_that_does_not_answer_is_not_lost(room: Any) -> None:
    _brings(room, lambda: room.restored(StoreRestored(1, ("s3://bucket",))))
    with pytest.raises(RaySystemError, match=r"cannot be restored from s3://bucket.*The object is not lost"):
        room.restore("seg", directly=False)


def test_the_node_hears_of_frees_while_the_session_lives(room: Any) -> None:
    room.freed("seg")
    room.basics.closed = RaySystemError("over")
    room.freed("later")
    assert room.control.sent == [StoreFreed("seg")]


def test_what_is_not_needed_is_given_back_on_request(room: Any) -> None:
    room.basics.segments.credit.granted(70, 0)
    room.trim(StoreTrim(3))
    [told] = room.control.sent
    assert isinstance(told, StoreTrimmed) and (told.round, room.basics.segments.credit.left) == (3, 0)


def test_a_warning_of_the_store_is_shown_as_one_and_any_other_line_as_a_note(room: Any) -> None:
    room.notice(StoreNotice("WARNING: the disk is 96 % full"))
    room.notice(StoreNotice("3 objects were spilled"))
    assert room.basics.deliveries.brought == [
        (notices.warn, "the disk is 96 % full"),
        (notices.note, "3 objects were spilled"),
    ]
