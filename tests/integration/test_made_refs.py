"""Refs that a program makes from the bytes of an id."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

GET_S = 120


def test_a_ref_made_from_bytes_counts_like_any_other(ray: ModuleType) -> None:
    @ray.remote
    def give() -> int:
        return 5

    stored, made = ray.put([1, 2]), give.remote()
    assert ray.get(made, timeout=GET_S) == 5
    for ref in (stored, made):
        again = ray.ObjectRef(ref.binary())
        assert again == ref
        assert ray.get(ray.ObjectRef.from_binary(ref.binary()), timeout=GET_S) == ray.get(ref)
        del again
    ray.get([give.remote() for _ in range(100)], timeout=GET_S)
    assert ray.get([stored, made], timeout=GET_S) == [[1, 2], 5]
    kept = ray.ObjectRef(stored.binary())
    del stored, ref
    ray.get([give.remote() for _ in range(100)], timeout=GET_S)
    assert ray.get(kept, timeout=GET_S) == [1, 2]


@pytest.mark.parametrize(
    ("wrong", "error"),
    [(b"short", ValueError), (bytes(24), ValueError), ("text", TypeError), (None, TypeError)],
)
def test_a_ref_made_from_something_else_is_refused(
    ray: ModuleType, wrong: Any, error: type[Exception]
) -> None:
    with pytest.raises(error, match="length 20"):
        ray.ObjectRef(wrong)


def test_only_an_actor_can_be_named_as_an_owner(ray: ModuleType) -> None:
    with pytest.raises(TypeError, match="actor's handle"):
        ray.put(1, _owner="me")
