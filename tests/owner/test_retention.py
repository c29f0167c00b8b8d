"""The way from a ref to the variable that holds it, found in this very process."""

from __future__ import annotations

import gc
import itertools
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from sundog.owner import retention
from sundog.refs import ObjectRef

KEPT: dict[str, Any] = {}
_numbers = itertools.count(1)


class Model:
    """Holds what a test gives it."""

    def __init__(self, ref: Any) -> None:
        self.refs = [ref]


class Slotted:
    __slots__ = ("ref",)

    def __init__(self, ref: Any) -> None:
        self.ref = ref


def new() -> ObjectRef[Any]:
    return ObjectRef(b"r" * 16 + next(_numbers).to_bytes(4, "little"), None)


def ways(ref: ObjectRef[Any]) -> tuple[tuple[str, ...], ...]:
    """As a process is asked: by another thread, whose own variables do not count."""
    found: list[Any] = []
    name = ref.hex()
    thread = threading.Thread(target=lambda: found.extend(retention.explain([name], {})))
    del ref
    thread.start()
    thread.join()
    paths: tuple[tuple[str, ...], ...] = found[0].paths
    return paths


@pytest.fixture(autouse=True)
def emptied(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(
        retention, "_LIMIT_S", 600.0
    )  # a process that ran other tests is large, and its walk long
    gc.unfreeze()  # a test of the zygote froze what was there: the search does not see what is frozen
    yield
    KEPT.clear()
    gc.freeze()  # as after the collection of the tests: see tests/conftest.py


def test_the_actor_is_found_although_what_holds_it_was_made_before_the_fork() -> None:
    class Holder:
        actor: Any = None

    holder = Holder()
    gc.collect()
    gc.freeze()  # as the zygote does: the search does not see the holder
    holder.actor = actor = Model(new())
    name, found = actor.refs[0].hex(), list[Any]()

    def ask(actor: Any) -> None:
        found.extend(retention.explain([name], {}, actor))

    thread = threading.Thread(target=ask, args=(actor,))
    del actor
    thread.start()
    thread.join()
    assert found[0].paths == (("ObjectRef", "list[0] of 1", "attribute refs of a Model", "the actor itself"),)


def test_a_ref_in_a_modules_variable_is_found_through_its_containers() -> None:
    KEPT["model"] = Model(new())
    [way] = ways(KEPT["model"].refs[0])
    assert way[:3] == ("ObjectRef", "list[0] of 1", "attribute refs of a Model")
    assert way[3:] == ("['model'] of a dict of 1", f"variable KEPT of module {__name__}")


def test_a_ref_in_a_variable_of_a_running_function_is_found() -> None:
    mine = new()
    [way] = ways(mine)
    assert way[1].startswith("variable mine of test_a_ref_in_a_variable_of_a_running_function_is_found() (")


def test_a_ref_in_a_slot_a_closure_and_a_class_is_found() -> None:
    KEPT["slotted"] = Slotted(new())
    assert ways(KEPT["slotted"].ref)[0][1] == "attribute ref of a Slotted"

    def enclose() -> Any:
        inner = new()
        return lambda: inner

    KEPT["closure"] = enclose()
    [way] = ways(KEPT["closure"]())
    assert way[1] == "a closure" and "enclose.<locals>.<lambda>" in " ".join(way)
    Model.shared = new()  # type: ignore[attr-defined]
    try:
        assert ways(Model.shared)[0][1:] == ("attribute shared of class Model",)  # type: ignore[attr-defined]
    finally:
        del Model.shared  # type: ignore[attr-defined]


def test_a_ref_in_a_suspended_generator_is_found() -> None:
    def items() -> Iterator[int]:
        kept = new()
        yield 1
        del kept

    KEPT["items"] = running = items()
    next(running)
    del running
    [way] = ways(KEPT["items"].gi_frame.f_locals["kept"])
    assert way[1].startswith("variable kept of the suspended generator test_a_ref_in_a_suspended_generator")


def test_an_object_that_nobody_holds_has_no_way() -> None:
    [found] = retention.explain(["ab" * 20], {})
    assert (found.paths, found.complete) == ((), True)
