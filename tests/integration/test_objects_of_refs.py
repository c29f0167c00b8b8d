"""Objects that contain many refs, read again and again: nothing inside is held longer than by its readers."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from sundog import engines
from tests.integration.gates import await_true
from tests.integration.test_objects import GET_S, LARGE, used_bytes


def test_refs_kept_for_an_object_that_is_read_often_are_counted_as_soon_as_it_is_freed(
    ray: ModuleType,
) -> None:
    engine = engines.current()
    assert engine is not None
    outer = ray.put([bytes(LARGE), *(ray.put(np.zeros(LARGE)) for _ in range(12))])
    for _ in range(4):
        assert len(ray.get(outer)) == 13
    with engine.owner.lock:  # nobody else may count
        del outer
        assert used_bytes(ray) == 0


def test_an_object_of_refs_read_often_by_an_idle_actor_lets_go_of_all_of_them(ray: ModuleType) -> None:
    @ray.remote
    class Reader:
        def read(self, box: list[Any]) -> list[int]:
            found = [ray.get(box[0]) for _ in range(4)]
            self.kept = found[2][7]
            return [len(each) for each in found]

        def drop(self) -> None:
            self.kept = None

    reader = Reader.remote()
    outer = ray.put([bytes(LARGE), *[ray.put(np.zeros(LARGE // 8)) for _ in range(40)]])
    assert ray.get(reader.read.remote([outer]), timeout=GET_S) == [41] * 4
    del outer
    await_true(lambda: used_bytes(ray) == LARGE, "all were freed but the one that the actor kept")
    ray.get(reader.drop.remote(), timeout=GET_S)
    await_true(lambda: used_bytes(ray) == 0, "that was freed too")
