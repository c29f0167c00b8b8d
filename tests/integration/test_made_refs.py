"""Refs that a program makes from the bytes of an id."""

from __future__ import annotations

import queue
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


def test_a_ref_made_from_its_hex_form_is_the_same(ray: ModuleType) -> None:
    ref = ray.put(3)
    assert ray.ObjectRef.from_hex(ref.hex()) == ref
    assert ray.get(ray.ObjectRef.from_hex(ref.hex()), timeout=GET_S) == 3


def test_a_callback_gets_the_value_or_the_error(ray: ModuleType) -> None:
    @ray.remote(max_retries=0)
    def divide(by: int) -> float:
        return 1 / by

    told: queue.Queue[object] = queue.Queue()
    for by in (2, 0):
        divide.remote(by)._on_completed(told.put)
    found = [told.get(timeout=GET_S), told.get(timeout=GET_S)]
    assert 0.5 in found
    assert any(isinstance(each, ZeroDivisionError) for each in found)
