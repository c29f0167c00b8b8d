"""A ring that processes share, while they are killed at any step of theirs."""

from __future__ import annotations

import json
import os
import signal

import pytest

from sundog.store.shared_ring import DONE, RingPlace, SharedRing, sealed


def test_an_opened_ring_is_the_same_one_and_knows_when_its_maker_is_dead() -> None:
    read, write = os.pipe()
    child = os.fork()
    if not child:
        made = SharedRing.make(0, 4096)
        made.put(sealed(b"from the maker"))
        os.write(write, json.dumps(made.place()).encode())
        signal.pause()
    place = RingPlace(*json.loads(os.read(read, 1000)))
    ring = SharedRing.open(place)
    assert not ring.is_over()
    assert ring.get() == b"from the maker"
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    ring._looked_s = 0.0
    assert ring.is_over()
    with pytest.raises(OSError):
        SharedRing.open(place)
    with pytest.raises(OSError):
        SharedRing.open(place._replace(pid=os.getpid(), memory=read, items=read, room=read, maker=read))
    ring.close()
    ring.close()
    os.close(read)
    os.close(write)


def test_killed_processes_lose_nothing_but_what_they_held() -> None:
    """Children add numbers that name them, and are killed at any step; each one's numbers come whole and in order."""
    ring = SharedRing.make(0, 1 << 16)
    seen: dict[bytes, int] = {}
    for name in range(12):
        child = os.fork()
        if not child:
            number = 0
            while True:
                if ring.put(sealed(b"%d %d" % (name, number))) == DONE:
                    number += 1
        mine = b"%d" % name
        while seen.get(mine, -1) < 50 + 7 * name:
            _take_one(ring, seen)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        while ring.size():
            _take_one(ring, seen)
    assert ring.put(sealed(b"12 0")) == DONE
    assert len(seen) == 12
    ring.close()


def _take_one(ring: SharedRing, seen: dict[bytes, int]) -> None:
    found = ring.get()
    if isinstance(found, bytes):
        name, number = found.split()
        assert int(number) == seen.get(name, -1) + 1
        seen[name] = int(number)
