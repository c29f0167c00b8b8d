"""The node with the most bytes of a task's arguments."""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sundog.owner import context, locality
from sundog.owner.rows import Fn, Shape, Task
from sundog.state.lease_spec import LeaseSpec
from sundog.store import places
from sundog.store.segments import Segments

if TYPE_CHECKING:
    from sundog.wire.dicts import LeaseSetup

HEAD = b"h" * 16
TAG_B, TAG_C = "0b0b0b0b", "0c0c0c0c"
ONE = LeaseSpec((("CPU", 1.0),), "env")


class Owner:
    """Makes shapes, and knows the folders of three nodes."""

    def __init__(self, base: str) -> None:
        self.segments = Segments(base, base + "-disk", b"m" * 8, deque())

    def shape_for(self, spec: LeaseSpec, setup: LeaseSetup) -> Shape:
        return Shape(2, spec, setup)


@pytest.fixture
def owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(context.facts, "node_id", HEAD)
    base = str(tmp_path / "sundog-1-0a1b2c3d")
    for tag in ("", TAG_B, TAG_C):
        os.mkdir(places.shared_root(base, tag))
    return Owner(base)


def value(name: str, size: int) -> Any:
    return b"oid", (0, b"", (name, size, [(0, size)]), None)


def task(spec: LeaseSpec = ONE) -> Task:
    fn = Fn(1, "f")
    fn.shape = Shape(1, spec, {})
    return Task(b"t" * 16, fn, None, 0.0)


def test_the_most_bytes_decide(owner: Any) -> None:
    values = [value("a-b-1@" + TAG_B, 100), value("a-b-2@" + TAG_C, 60), value("a-b-3@" + TAG_C, 60)]

    assert locality.near(owner.segments, owner, task(), values).spec.prefer == bytes.fromhex(TAG_C)


def test_copies_count_as_much_as_the_home(owner: Any) -> None:
    Path(places.shared_root(owner.segments.base_root, TAG_B), "a-b-1@" + TAG_C).touch()
    values = [value("a-b-1@" + TAG_C, 100), value("a-b-2@" + TAG_B, 1)]

    assert locality.near(owner.segments, owner, task(), values).spec.prefer == bytes.fromhex(TAG_B)


def test_the_head_is_named_by_its_id(owner: Any) -> None:
    assert locality.near(owner.segments, owner, task(), [value("a-b-1", 100)]).spec.prefer == HEAD[:4]


def test_small_values_and_other_strategies_keep_their_shape(owner: Any) -> None:
    small = (b"oid", (0, b"", None, None))
    plain, spread = task(), task(LeaseSpec(ONE.resources, "env", strategy=("spread",)))

    assert locality.near(owner.segments, owner, plain, [small]) is plain.fn.shape
    assert locality.near(owner.segments, owner, spread, [value("a-b-1@" + TAG_B, 100)]) is spread.fn.shape
