"""Memory for long bodies that a proxy and replicas share."""

from __future__ import annotations

import os

import pytest

from sundog.serve.shared_bodies import SLOT_BODY_MAX_BYTES, BodyPool, BodyReaders, plain_body


def test_a_body_is_read_where_the_proxy_has_put_it() -> None:
    slot = BodyPool().take(1_000_000)
    assert slot is not None
    slot.view[:] = b"ab" * 500_000

    assert BodyReaders().read(slot.place) == b"ab" * 500_000
    assert plain_body(slot) == b"ab" * 500_000


def test_a_body_whose_slot_was_taken_for_another_request_is_not_read() -> None:
    pool, readers = BodyPool(), BodyReaders()
    first = pool.take(100)
    assert first is not None
    place = first.place
    first.view[:] = b"1" * 100
    assert readers.read(place) == b"1" * 100

    first.release()
    first.release()  # a second time does nothing
    second = pool.take(100)
    assert second is not None and second.place.offset == place.offset
    second.view[:] = b"2" * 100

    assert readers.read(place) is None
    assert readers.read(second.place) == b"2" * 100


def test_there_are_so_many_slots_and_no_more() -> None:
    pool = BodyPool()
    slots = [pool.take(SLOT_BODY_MAX_BYTES) for _ in range(16)]
    assert all(slots) and pool.take(1) is None

    slots[3].release()  # type: ignore[union-attr]
    assert pool.take(SLOT_BODY_MAX_BYTES + 1) is None, "too long"
    assert pool.take(1) is not None


def test_memory_that_nobody_needs_goes_back_to_the_system() -> None:
    pool = BodyPool()
    slot = pool.take(1_000_000)
    assert slot is not None
    slot.view[:] = bytes(1_000_000)
    place = slot.place
    held = os.fstat(pool.fd).st_blocks
    assert held * 512 >= 1_000_000

    pool.trim()
    pool.trim()
    assert os.fstat(pool.fd).st_blocks == held, "a request has it"
    slot.release()
    pool.trim()
    pool.trim()
    assert os.fstat(pool.fd).st_blocks == 0
    assert BodyReaders().read(place) is None, "an old request finds nothing"


def test_memory_of_another_file_is_refused() -> None:
    slot = BodyPool().take(10)
    assert slot is not None
    with open(os.devnull) as other, pytest.raises(OSError, match="no memory of a proxy"):
        BodyReaders().read(slot.place._replace(fd=other.fileno()))


def test_a_pool_without_memory_gives_no_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_args: object) -> int:
        raise OSError("no memory")

    monkeypatch.setattr(os, "memfd_create", fails)
    pool = BodyPool()
    assert pool.take(10) is None and pool.is_off
