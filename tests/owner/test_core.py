"""An owner's parts, connected: each knows those it needs, and the objects know the owner around them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sundog.exceptions import OwnerDiedError, ReferenceCountingAssertionError
from sundog.ids import result_id
from sundog.owner import interfaces
from sundog.owner.core import Owner
from sundog.owner.rows import Fn, Task
from sundog.wire.cause import SIGNAL, Cause
from tests.owner.fakes import OTHER, new_id
from tests.owner.whole import FakeNode, whole_owner


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[Owner, FakeNode]]:
    with whole_owner(tmp_path) as made:
        yield made


def test_every_part_has_got_the_parts_that_were_built_after_it(both: tuple[Owner, FakeNode]) -> None:
    owner, _ = both
    named = {name for name in vars(interfaces) if isinstance(vars(interfaces)[name], type)}
    checked = 0
    for part in vars(owner).values():
        wanted = (
            vars(type(part)).get("__annotations__", {}) if type(part).__module__.startswith("sundog.") else {}
        )
        for name, annotation in wanted.items():
            if str(annotation) in named:
                checked += 1
                assert hasattr(part, name), f"{type(part).__name__}.{name}"
    assert checked > 10


def test_objects_ask_the_part_that_knows(both: tuple[Owner, FakeNode]) -> None:
    owner, _ = both
    around = owner.objects.around
    task = Task(owner.ids.task(), Fn(1, "f"), None, 0.0)
    assert not around.comes(result_id(task.id, 1))
    owner.streams.open(task)
    assert around.comes(result_id(task.id, 1))  # an item that may still arrive
    scope = owner.actors.scope_id(b"a" * 16)
    owner.actors.scopes.add(scope)
    assert around.comes(scope)
    owner.actors.scopes.clear()


def test_the_error_of_an_unknown_object_depends_on_whether_its_owner_lives(
    both: tuple[Owner, FakeNode],
) -> None:
    owner, _ = both
    around = owner.objects.around
    assert isinstance(around.unknown(new_id()), ReferenceCountingAssertionError)
    owner.peers.dead[OTHER] = Cause(kind=SIGNAL, signal=9)
    assert isinstance(around.unknown(new_id(OTHER)), OwnerDiedError)


def test_a_round_counts_refs_and_drops_generators_that_nobody_holds(both: tuple[Owner, FakeNode]) -> None:
    owner, _ = both
    task = Task(owner.ids.task(), Fn(1, "f"), None, 0.0)
    owner.streams.open(task)
    owner.dropped_generators.append(task.id)
    oid = owner.objects.put(1)
    owner.ops.append(oid)  # the only ref to it died
    with owner.lock:
        owner.after_round()
    assert owner.streams.of(task).closed and oid not in owner.ready
    assert not owner.ops and not owner.dropped_generators


def test_a_value_that_was_put_is_read_back_and_as_a_future_too(both: tuple[Owner, FakeNode]) -> None:
    owner, _ = both
    oid = owner.objects.put({"a": 1})
    future: Any = owner.future_of(oid)
    assert future.result(timeout=30) == {"a": 1}
