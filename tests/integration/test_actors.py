"""Actors as their users see them: state, arguments, handles, order, options, misuse, and how they end."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import sundog
from sundog.exceptions import ActorDiedError, PendingCallsLimitExceeded, RayTaskError
from sundog.wire.requests import ListRows
from tests.integration.counters import make_counter
from tests.integration.gates import await_file, await_true

GET_S = 120


# ---------------------------------------------------------------------- state and arguments
def test_an_actor_keeps_its_state_between_calls(ray: ModuleType) -> None:
    counter = make_counter(ray).remote(start=10)
    assert ray.get([counter.add.remote(), counter.add.remote(5), counter.add.remote(amount=4)]) == [
        11,
        16,
        20,
    ]


def test_each_actor_lives_in_a_process_of_its_own(ray: ModuleType) -> None:
    cls = make_counter(ray)
    actors = [cls.remote() for _ in range(3)]
    pids = ray.get([actor.pid.remote() for actor in actors], timeout=GET_S)
    assert len({*pids, os.getpid()}) == 4
    assert ray.get(actors[0].pid.remote()) == pids[0]


def test_refs_and_large_arrays_reach_the_constructor_and_methods(ray: ModuleType) -> None:
    @ray.remote
    class Keeper:
        def __init__(self, array: Any, scale: int, inside: list[Any]) -> None:
            self.array, self.scale, self.inside = array, scale, inside

        def total(self) -> float:
            return float(self.array.sum()) * self.scale

        def nested(self) -> Any:
            return sundog.get(self.inside[0])

        def dot(self, other: Any, *, factor: Any = 1) -> float:
            return float((self.array * other).sum()) * float(factor)

        def double(self) -> Any:
            return self.array * 2

    @ray.remote
    def make(value: float) -> Any:
        return np.full(300_000, value)

    big = ray.put(np.ones(200_000))
    keeper = Keeper.remote(make.remote(2.0), scale=ray.put(3), inside=[big])
    del big
    assert ray.get(keeper.total.remote(), timeout=GET_S) == 1_800_000
    assert float(ray.get(keeper.nested.remote()).sum()) == 200_000
    assert ray.get(keeper.dot.remote(np.ones(300_000), factor=ray.put(0.5))) == 300_000
    result = ray.get(keeper.double.remote())
    assert float(result[0]) == 4.0 and not result.flags.writeable


def test_an_argument_that_failed_fails_the_call_and_not_the_actor(ray: ModuleType) -> None:
    @ray.remote
    def broken() -> None:
        raise LookupError("no such thing")

    counter = make_counter(ray).remote()
    with pytest.raises(LookupError, match="no such thing"):
        ray.get(counter.add.remote(broken.remote()), timeout=GET_S)
    assert ray.get(counter.add.remote()) == 1


def test_a_constructor_that_raises_fails_every_call_with_its_error(ray: ModuleType) -> None:
    @ray.remote
    class Broken:
        def __init__(self) -> None:
            raise ValueError("bad model file")

        def work(self) -> None:
            return None

    actor = Broken.remote()
    for _ in range(2):
        with pytest.raises(ActorDiedError, match="bad model file") as caught:
            ray.get(actor.work.remote(), timeout=GET_S)
        assert caught.value.actor_id == actor._actor_id.hex()


def test_a_failed_constructor_argument_fails_the_actor(ray: ModuleType) -> None:
    @ray.remote
    def broken() -> None:
        raise LookupError("no such thing")

    counter = make_counter(ray).remote(broken.remote())
    with pytest.raises(ActorDiedError, match="no such thing"):
        ray.get(counter.add.remote(), timeout=GET_S)


def test_a_method_that_raises_leaves_the_actor_alive(ray: ModuleType) -> None:
    @ray.remote
    class Fragile:
        def fail(self) -> None:
            raise KeyError("gone")

        def ok(self) -> str:
            return "fine"

    actor = Fragile.remote()
    with pytest.raises(KeyError) as caught:
        ray.get(actor.fail.remote(), timeout=GET_S)
    assert isinstance(caught.value, RayTaskError)
    assert "raise KeyError" in str(caught.value)
    assert ray.get(actor.ok.remote()) == "fine"


def test_methods_are_inherited_overridden_and_call_super(ray: ModuleType) -> None:
    class Base:
        def __init__(self) -> None:
            self.names = ["base"]

        def who(self) -> list[str]:
            return self.names

        @staticmethod
        def fixed() -> int:
            return 7

        @classmethod
        def title(cls) -> str:
            return cls.__name__

    @ray.remote
    class Child(Base):
        def __init__(self) -> None:
            super().__init__()
            self.names.append("child")

        def who(self) -> list[str]:
            return [*super().who(), "again"]

    child = Child.remote()
    assert ray.get([child.who.remote(), child.fixed.remote(), child.title.remote()], timeout=GET_S) == [
        ["base", "child", "again"],
        7,
        "Child",
    ]


def test_an_actors_repr_names_it_in_the_log(capfd: pytest.CaptureFixture[str], ray: ModuleType) -> None:
    @ray.remote
    class Named:
        def __init__(self, index: int) -> None:
            self.index = index

        def __repr__(self) -> str:
            return f"Named(index={self.index})"

        def speak(self) -> int:
            print("hello from inside")
            return os.getpid()

    pid = ray.get(Named.remote(4).speak.remote(), timeout=GET_S)
    ray.shutdown()
    out = capfd.readouterr()
    assert f"(Named(index=4) pid={pid})" in out.out + out.err


# ---------------------------------------------------------------------- order and limits
def test_calls_of_one_caller_run_in_order_even_when_an_argument_is_late(
    ray: ModuleType, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"

    @ray.remote
    def late() -> int:
        await_file(gate)
        return 0

    @ray.remote
    class Log:
        def __init__(self) -> None:
            self.seen: list[int] = []

        def note(self, number: int) -> None:
            self.seen.append(number)

        def all(self) -> list[int]:
            return self.seen

    log = Log.remote()
    log.note.remote(late.remote())
    for number in range(1, 300):
        log.note.remote(number)
    everything = log.all.remote()
    gate.touch()
    assert ray.get(everything, timeout=GET_S) == list(range(300))


def test_calls_of_each_of_several_callers_run_in_their_order(ray: ModuleType) -> None:
    @ray.remote
    class Log:
        def __init__(self) -> None:
            self.seen: dict[str, list[int]] = {}

        def note(self, who: str, number: int) -> None:
            self.seen.setdefault(who, []).append(number)

        def all(self) -> dict[str, list[int]]:
            return self.seen

    log = Log.remote()

    @ray.remote
    def caller(name: str, handle: Any) -> None:
        sundog.get([handle.note.remote(name, number) for number in range(200)])

    ray.get([caller.remote(name, log) for name in "ab"], timeout=GET_S)
    threads = [
        threading.Thread(target=lambda name=name: [log.note.remote(name, n) for n in range(200)])
        for name in "xy"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ray.get(log.all.remote(), timeout=GET_S) == {name: list(range(200)) for name in "abxy"}


def test_more_pending_calls_than_allowed_are_refused(ray: ModuleType, tmp_path: Path) -> None:
    gate = tmp_path / "gate"

    @ray.remote(max_pending_calls=2)
    class Slow:
        def hold(self) -> None:
            await_file(gate)

        def ok(self) -> int:
            return 1

    slow = Slow.remote()
    held = [slow.hold.remote(), slow.hold.remote()]
    with pytest.raises(PendingCallsLimitExceeded, match="max_pending_calls"):
        slow.ok.remote()
    gate.touch()
    ray.get(held, timeout=GET_S)
    assert ray.get(slow.ok.remote(), timeout=GET_S) == 1


def test_out_of_order_actors_do_not_wait_for_a_late_argument(ray: ModuleType, tmp_path: Path) -> None:
    gate = tmp_path / "gate"

    @ray.remote
    def late() -> int:
        await_file(gate)
        return 100

    counter = make_counter(ray, allow_out_of_order_execution=True).remote()
    behind = counter.add.remote(late.remote())
    assert ray.get(counter.add.remote(1), timeout=GET_S) == 1
    gate.touch()
    assert ray.get(behind, timeout=GET_S) == 101


# ---------------------------------------------------------------------- options of methods
def test_methods_return_several_refs_by_decorator_and_by_options(ray: ModuleType) -> None:
    @ray.remote
    class Many:
        @sundog.method(num_returns=2)
        def pair(self) -> tuple[int, int]:
            return 1, 2

        def three(self) -> list[int]:
            return [1, 2, 3]

        def nothing(self) -> None:
            return None

    many = Many.remote()
    assert ray.get(many.pair.remote(), timeout=GET_S) == [1, 2]
    assert ray.get(many.three.options(num_returns=3).remote()) == [1, 2, 3]
    assert many.nothing.options(num_returns=0).remote() is None
    with pytest.raises(ValueError, match="num_returns=2"):
        ray.get(many.three.options(num_returns=2).remote())
    with pytest.raises(ValueError, match="concurency"):
        many.three.options(concurency_group="x")


def test_a_method_that_raises_is_tried_again_when_asked_to(ray: ModuleType) -> None:
    @ray.remote
    class Flaky:
        def __init__(self) -> None:
            self.calls = 0

        @sundog.method(max_task_retries=5, retry_exceptions=[ConnectionError])
        def fetch(self, good_at: int) -> tuple[int, int]:
            self.calls += 1
            if self.calls < good_at:
                raise ConnectionError("try again")
            return self.calls, sundog.get_runtime_context().get_attempt_number()

        @sundog.method(max_task_retries=5, retry_exceptions=[ConnectionError])
        def other(self) -> None:
            self.calls += 1
            raise ValueError(self.calls)

    flaky = Flaky.remote()
    assert ray.get(flaky.fetch.remote(3), timeout=GET_S) == (3, 2)
    with pytest.raises(ValueError, match="4"):
        ray.get(flaky.other.remote(), timeout=GET_S)


def test_a_calls_name_shows_in_its_runtime_context(ray: ModuleType) -> None:
    @ray.remote
    class Me:
        def facts(self) -> dict[str, Any]:
            context = sundog.get_runtime_context()
            return {
                "name": context.get_task_name(),
                "actor": context.get_actor_id(),
                "task": context.get_task_id(),
                "actor_name": context.get_actor_name(),
            }

    me = Me.remote()
    ref = me.facts.options(name="renamed").remote()
    facts = ray.get(ref, timeout=GET_S)
    assert facts == {
        "name": "renamed",
        "actor": me._actor_id.hex(),
        "task": ref.task_id().hex(),
        "actor_name": "",
    }
    assert ray.get(me.facts.remote(), timeout=GET_S)["name"] == "Me.facts"


def test_the_runtimes_own_methods_answer_on_every_actor(ray: ModuleType) -> None:
    counter = make_counter(ray).remote(4)
    assert ray.get(counter.__ray_ready__.remote(), timeout=GET_S) is True
    assert ray.get(counter.__ray_call__.remote(lambda self, x: self.value * x, 5)) == 20
    with pytest.raises(ActorDiedError, match="__ray_terminate__"):
        ray.get(counter.__ray_terminate__.remote(), timeout=GET_S)
    with pytest.raises(ActorDiedError):
        ray.get(counter.add.remote(), timeout=GET_S)


# ---------------------------------------------------------------------- misuse
def test_misused_actor_classes_and_handles_say_what_to_write_instead(ray: ModuleType) -> None:
    cls = make_counter(ray)
    with pytest.raises(TypeError, match=r"Counter\.remote"):
        cls()
    counter = cls.remote()
    with pytest.raises(TypeError, match=r"add\.remote"):
        counter.add(1)
    with pytest.raises(AttributeError, match="subtract"):
        counter.subtract.remote(1)
    with pytest.raises(AttributeError, match="value"):
        counter.value  # noqa: B018
    with pytest.raises(ValueError, match="actor handle"):
        ray.kill(cls)
    with pytest.raises(TypeError, match="remote already"):
        ray.remote(cls)
    with pytest.raises(ValueError, match=r"\.remote\(\)"):
        ray.get(counter)
    with pytest.raises(ValueError, match="max_restart"):
        cls.options(max_restart=1)
    with pytest.raises(TypeError, match="argument"):
        cls.remote(1, 2, 3)


def test_an_actor_class_cannot_be_subclassed(ray: ModuleType) -> None:
    cls = make_counter(ray)
    with pytest.raises(TypeError, match="Inherit from the plain class"):

        class Sub(cls):
            pass


def test_wrong_arguments_of_a_method_raise_a_type_error(ray: ModuleType) -> None:
    counter = make_counter(ray).remote()

    def outcome() -> None:
        ray.get(counter.add.remote(1, 2, 3), timeout=GET_S)

    with pytest.raises(TypeError, match="argument"):
        outcome()


def test_exit_actor_outside_of_an_actor_is_an_error(ray: ModuleType) -> None:
    from sundog.actor import exit_actor

    with pytest.raises(TypeError, match="does not run in an actor"):
        exit_actor()


def test_an_actor_ends_with_its_last_handle_though_its_last_call_was_never_made(ray: ModuleType) -> None:
    @ray.remote
    class Echo:
        def say(self, word: Any) -> Any:
            return word

    @ray.remote
    def fail() -> None:
        raise ValueError("no word")

    actor = Echo.remote()
    assert ray.get(actor.say.remote(1), timeout=120) == 1
    ref = actor.say.remote(fail.remote())
    del actor
    with pytest.raises(ValueError, match="no word"):
        ray.get(ref, timeout=120)
    await_true(
        lambda: [row["state"] for row in sundog.api.control(ListRows("actors"))[0]] == ["DEAD"],
        "the end of an actor that nobody can reach",
    )
