"""`free`: what it takes, and what it hands on."""

from __future__ import annotations

from typing import Any

import pytest

from sundog import engines, internal
from sundog.refs import ObjectRef
from tests.owner.fakes import ME, new_id


class FakeFrees:
    """Objects that were freed, and by which call."""

    def __init__(self) -> None:
        self.freed: list[tuple[list[bytes], tuple[str, int, str]]] = []

    def free(self, oids: list[bytes], by: tuple[str, int, str]) -> None:
        self.freed.append((oids, by))


class FakeOwner:
    """An owner that frees."""

    me = ME

    def __init__(self) -> None:
        self.frees = FakeFrees()


class FakeEngine:
    """An engine with such an owner."""

    def __init__(self) -> None:
        self.owner = FakeOwner()


def _ref() -> ObjectRef[object]:
    return ObjectRef(new_id(), None)


def test_one_ref_or_a_list_of_them_is_freed_with_the_place_of_the_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = FakeEngine()
    with monkeypatch.context() as patch:
        patch.setattr(engines, "current", lambda: engine)
        one, two = _ref(), _ref()
        internal.free(one)
        internal.free([one, two], local_only=True)
        internal.free([])
    assert [oids for oids, _ in engine.owner.frees.freed] == [
        [one.binary()],
        [one.binary(), two.binary()],
        [],
    ]
    assert "test_internal.py" in engine.owner.frees.freed[0][1][2]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("abc", r"free\(\) takes a list of refs, not str"),
        (None, r"free\(\) takes a list of refs, not NoneType"),
        ([1], r"free\(\) takes a list of refs, but 1 in it is int"),
    ],
)
def test_what_is_not_a_ref_is_refused_before_anything_is_freed(given: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        internal.free(given)
