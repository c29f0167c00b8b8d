"""Groups of actors that are called together."""

from __future__ import annotations

from types import ModuleType

import pytest

from sundog.util.actor_group import ActorGroup
from sundog.util.annotations import RayDeprecationWarning

pytestmark = pytest.mark.filterwarnings("ignore::sundog.notices.RayDeprecationWarning")


class Worker:
    def __init__(self, start: int = 0) -> None:
        self.start = start

    def add(self, x: int) -> int:
        return self.start + x

    def get_actor_metadata(self) -> str:
        return "known"


def test_a_method_is_called_on_every_actor(ray: ModuleType) -> None:
    group = ActorGroup(Worker, num_actors=2, init_args=(10,))
    assert (len(group), group.actor_metadata) == (2, ["known", "known"])
    assert ray.get(group.add.remote(1)) == [11, 11]
    group.add_actors(1)
    group.remove_actors([0])
    assert ray.get(group.add.remote(2)) == [12, 12]
    with pytest.raises(TypeError, match="remote"):
        group.add(1)
    with pytest.raises(AttributeError):
        _ = group.missing


def test_a_group_that_was_shut_down_can_start_again(ray: ModuleType) -> None:
    group = ActorGroup(Worker, num_actors=2)
    with pytest.raises(RuntimeError, match="shutdown"):
        group.start()
    group.shutdown()
    with pytest.raises(RuntimeError, match="start"):
        _ = group.add
    group.start()
    assert ray.get(group.add.remote(1)) == [1, 1]
    group.shutdown(patience_s=0)


def test_a_group_needs_actors_and_warns_of_its_age(ray: ModuleType) -> None:
    with pytest.raises(ValueError, match="num_actors"):
        ActorGroup(Worker, num_actors=0)
    with pytest.warns(RayDeprecationWarning, match=r"use ray.util.multiprocessing"):
        ActorGroup(Worker).shutdown()
