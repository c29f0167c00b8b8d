"""The less common ways to call a remote function, a method or an actor class, and what can be read of them."""

from __future__ import annotations

import functools
import inspect
import pickle
from types import ModuleType
from typing import Any

import pytest

import sundog


class Plain:
    """What it is."""

    limit = 3

    def __init__(self, start: int = 0) -> None:
        self.start = start

    def add(self, a: int, b: int = 1) -> int:
        """Adds."""
        return self.start + a + b

    def two(self) -> tuple[int, int]:
        return 1, 2


def test_remote_takes_arguments_in_a_list_and_a_dict_with_options_for_one_call(ray: ModuleType) -> None:
    @ray.remote
    def several(a: int, b: int = 2, c: int = 3) -> tuple[int, int, int]:
        return a, b, c

    assert ray.get(several._remote(args=[1], kwargs={"c": 9})) == (1, 2, 9)
    assert ray.get(several._remote([1], num_returns=3)) == [1, 2, 3]
    actor = ray.remote(Plain)._remote(args=[10], name="named")
    assert ray.get(actor.add._remote([1], {"b": 4})) == 15
    assert ray.get(actor.two._remote(num_returns=2)) == [1, 2]
    assert ray.get_actor("named") == actor


def test_a_bound_method_of_a_handle_can_be_passed_on(ray: ModuleType) -> None:
    actor = ray.remote(Plain).remote(10)

    @ray.remote
    def call(method: Any) -> Any:
        return ray.get(method.remote(1))

    ray.get(actor.add.remote(1))  # a method that was called before, too
    assert ray.get(call.remote(actor.add)) == 12
    assert ray.get(call.remote(actor.add.options(name="x"))) == 12


def reversed_call(invoke: Any) -> Any:
    def new_call(args: Any, kwargs: Any) -> Any:
        return invoke(args[::-1], {"b": 5}), kwargs

    return new_call


def test_a_decorator_of_the_call_runs_where_the_call_is_made(ray: ModuleType) -> None:
    def plain(a: int, b: int = 0) -> tuple[int, int]:
        return a, b

    class Decorated:
        def method(self, a: int, b: int = 0) -> tuple[int, int]:
            return a, b

    plain.__ray_invocation_decorator__ = reversed_call
    Decorated.method.__ray_invocation_decorator__ = reversed_call
    ref, kwargs = ray.remote(plain).remote(1, x=3)
    assert (ray.get(ref), kwargs) == ((1, 5), {"x": 3})
    actor = ray.remote(Decorated).remote()
    for handle in (actor, pickle.loads(pickle.dumps(actor))):
        ref, kwargs = handle.method.remote(7)
        assert (ray.get(ref), kwargs) == ((7, 5), {})


def test_arguments_are_checked_against_what_is_really_called(ray: ModuleType) -> None:
    def first_is_one(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(1, *args, **kwargs)

        return wrapper

    @ray.remote
    @first_is_one
    def pair(a: int, b: int) -> tuple[int, int]:
        return a, b

    assert ray.get(pair.remote(2)) == (1, 2)


def test_an_actor_class_tells_what_it_is_made_of() -> None:
    made = sundog.remote(num_cpus=2)(Plain)
    told = made.__ray_metadata__
    assert (told.class_name, told.modified_class, told.num_cpus) == ("Plain", Plain, 2)
    assert set(told.method_meta.methods) == {"add", "two"}
    assert [each.name for each in told.method_meta.signatures["add"]] == ["a", "b"]
    assert not told.class_id.is_nil()
    assert {"add", "limit", "remote", "options"} <= set(dir(made))
    assert made.__ray_actor_class__ is Plain


def test_a_method_of_a_handle_has_the_users_signature_and_docstring(ray: ModuleType) -> None:
    actor = ray.remote(Plain).remote()
    assert list(inspect.signature(actor.add).parameters) == ["a", "b"]
    assert (actor.add.__doc__, actor.add.__name__) == ("Adds.", "add")
    assert {"__init__", "add", "two", "__ray_ready__"} <= set(dir(actor))


@pytest.mark.parametrize("kind", [sundog.TaskID, sundog.ActorID])
def test_ids_of_nothing_and_ids_at_random(kind: Any) -> None:
    assert kind.nil().is_nil() and kind.nil().binary() == b"\xff" * kind.size()
    assert not kind.from_random().is_nil()


def test_the_job_can_be_read_from_every_id(ray: ModuleType) -> None:
    job = ray.get_runtime_context().get_job_id()

    @ray.remote
    def jobs() -> list[str]:
        actor = ray.remote(Plain).remote()
        ref = actor.two.remote()
        return [ray.put(1).job_id().hex(), ref.job_id().hex(), actor._actor_id.job_id.hex()]

    assert ray.get(jobs.remote()) == [job] * 3


def test_a_ref_made_of_an_id_of_rays_length_names_nothing_but_is_a_ref(ray: ModuleType) -> None:
    made = ray.ObjectRef.from_random()
    assert pickle.loads(pickle.dumps(made)) == made == ray.ObjectRef(made.binary())
    assert ray.ObjectRef.nil().is_nil() and not made.is_nil()
    with pytest.raises(ValueError, match="needs to have length"):
        ray.ObjectRef(b"1234")
    with pytest.raises(TypeError):
        ray.ObjectRef("ab" * 28)
