"""Waiting for copies on this node: what is ready elsewhere is not ready here."""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path
from typing import Any

from sundog.owner.fetching import wait_local
from sundog.store import places
from sundog.store.segments import Segments

TAG = "0b0b0b0b"


class Getting:
    """Counts the waits; nothing becomes ready by them."""

    def __init__(self) -> None:
        self.waits = 0

    def wait(self, _oids: list[bytes], _count: int, _timeout_s: float | None) -> list[bytes]:
        self.waits += 1
        return []


class Owner:
    """An owner with values in segments of another node."""

    def __init__(self, base: str) -> None:
        self.segments = Segments(base, base + "-disk", b"m" * 8, deque())
        self.getting = Getting()
        self.ready: dict[bytes, Any] = {}
        self.objects = self

    def value(self, oid: bytes) -> Any:
        return self.ready.get(oid)


def make(tmp_path: Path) -> tuple[Any, Segments]:
    base = str(tmp_path / "sundog-1-0a1b2c3d")
    for tag in ("", TAG):
        os.mkdir(places.shared_root(base, tag))
    return Owner(base), Segments(base, base + "-disk", b"w" * 8, deque(), TAG)


def test_a_small_value_and_one_that_can_be_copied_are_ready(tmp_path: Path) -> None:
    owner, there = make(tmp_path)
    location = there.write([memoryview(b"x" * 200_000)], b"m" * 8)
    owner.ready = {b"small": (0, b"", None, None, None), b"large": (0, b"", location, None, None)}

    assert wait_local(owner, [b"large", b"small"], 2, 0) == [b"large", b"small"]
    assert os.path.exists(f"{owner.segments.shm_root}/{location[0]}")


def test_without_room_for_the_copy_it_is_not_ready(tmp_path: Path) -> None:
    owner, there = make(tmp_path)
    location = there.write([memoryview(b"x" * 200_000)], b"m" * 8)
    owner.ready = {b"large": (0, b"", location, None, None)}
    owner.segments.credit.limited(lambda _missing, _aside: False)

    assert wait_local(owner, [b"large"], 1, 0) == []
    assert wait_local(owner, [b"large"], 1, 0.05) == []
    assert owner.getting.waits > 0


def test_what_is_not_there_at_all_is_waited_for(tmp_path: Path) -> None:
    owner, _ = make(tmp_path)

    assert wait_local(owner, [b"later"], 1, 0.01) == []
    assert owner.getting.waits > 0
