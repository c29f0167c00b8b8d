"""Refs and handles that a program pickles by hand: what they point to stays, for nobody can tell when the bytes go."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

GET_S = 120
MANY = 300_000  # enough for an object in shared memory


def test_an_object_outlives_its_refs_once_one_was_pickled_inside_a_value(ray: ModuleType) -> None:
    ref = ray.put(np.ones(MANY))
    blob = ray.cloudpickle.dumps({"inside": [ref]})
    del ref
    gc.collect()
    for _ in range(2):
        again = ray.cloudpickle.loads(blob)["inside"][0]
        assert ray.get(again, timeout=GET_S).sum() == MANY
        del again


def test_bytes_with_a_ref_can_be_read_in_another_process(ray: ModuleType) -> None:
    @ray.remote
    def read(blob: bytes) -> float:
        return float(ray.get(pickle.loads(blob)).sum())

    ref = ray.put(np.ones(MANY))
    blob = ray.cloudpickle.dumps(ref)
    del ref
    assert ray.get(read.remote(blob), timeout=GET_S) == MANY


@pytest.mark.parametrize("who", ["the owner", "a borrower"])
def test_bytes_that_a_task_made_can_be_read_by_the_driver(ray: ModuleType, who: str) -> None:
    @ray.remote
    def give(refs: list[Any]) -> bytes:
        ref = refs[0] if refs else ray.put(np.ones(MANY))
        return bytes(ray.cloudpickle.dumps(ref))

    lent = [] if who == "the owner" else [ray.put(np.ones(MANY))]
    blob = ray.get(give.remote(lent), timeout=GET_S)
    del lent
    gc.collect()
    assert ray.get(pickle.loads(blob), timeout=GET_S).sum() == MANY


def test_a_ref_that_is_not_ready_can_be_pickled(ray: ModuleType) -> None:
    @ray.remote
    def late(first: int) -> int:
        return first + 1

    ref = late.remote(late.remote(1))
    blob = ray.cloudpickle.dumps(ref)
    del ref
    assert ray.get(pickle.loads(blob), timeout=GET_S) == 3


def test_captured_and_pickled_refs_are_refused_if_the_settings_say_so(
    ray_session: Callable[..., ModuleType],
) -> None:
    ray = ray_session(num_cpus=1, _system_config={"allow_out_of_band_object_ref_serialization": False})
    ref = ray.put(1)

    @ray.remote
    def captures() -> Any:
        return ray.get(ref)

    @ray.remote
    class Captures:
        def read(self) -> Any:
            return ray.get(ref)

    @ray.remote
    def pickles() -> bytes:
        return pickle.dumps(ray.put(1))

    @ray.remote
    def passes(refs: list[Any]) -> Any:
        return ray.get(refs[0])

    refusal = ray.exceptions.OufOfBandObjectRefSerializationException
    with pytest.raises(refusal, match="is captured by the remote function or class "):
        captures.remote()
    with pytest.raises(refusal, match="is captured by"):
        Captures.remote()
    with pytest.raises(refusal, match="was pickled outside of"):
        ray.get(pickles.remote(), timeout=GET_S)
    assert ray.get(passes.remote([ref]), timeout=GET_S) == 1
