"""Shims: the same kind of function as the user's, and one note for each call, not for calls within it."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from sundog import events
from sundog.exceptions import TaskTimeoutError
from sundog.ray_engine import joining, process, runs, shim


class Recorded:
    """Stands for this process in a cluster."""

    ring: object | None = None

    def __init__(self) -> None:
        self.ends: list[tuple[int, str, str]] = []

    def current_task(self) -> tuple[bytes, int]:
        return bytes(15) + b"\x01", 0

    def ended(self, execution: shim.Execution, error: BaseException | None) -> None:
        self.ends.append((execution.kind, execution.name, type(error).__name__ if error else ""))


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    found = Recorded()
    monkeypatch.setattr(process, "me", found)
    monkeypatch.setattr(process, "ready", lambda role="worker": found)
    return found


def test_a_shim_has_the_name_the_signature_and_the_kind_of_its_function(recorded: Recorded) -> None:
    def add(a: int, b: int = 1) -> int:
        return a + b

    made = shim.task(add, ())
    assert made.__name__ == "add" and str(inspect.signature(made)) == str(inspect.signature(add))
    assert not hasattr(made, "__wrapped__")
    assert made(1) == 2
    assert recorded.ends == [(events.TASK, "add", "")]


@pytest.mark.parametrize("ring", [None, object()])
def test_the_first_shim_brings_its_worker_to_this_engine(
    monkeypatch: pytest.MonkeyPatch, ring: object | None
) -> None:
    entered: list[bool] = []
    found = Recorded()
    found.ring = ring
    monkeypatch.setattr(process, "ready", lambda: found)
    monkeypatch.setattr(joining, "enter_worker", lambda: entered.append(True))
    monkeypatch.setattr(sys, "breakpointhook", sys.__breakpointhook__)

    entering: object = shim._enter()
    assert entering is found
    assert entered == [True]
    is_ours = sys.breakpointhook is not sys.__breakpointhook__
    assert is_ours == (ring is not None), "a pause is told to the records, which this worker has or has not"


def test_an_error_is_noted_and_goes_on(recorded: Recorded) -> None:
    def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        shim.task(fail, ())()
    assert recorded.ends == [(events.TASK, "fail", "KeyError")]
    assert not runs.now_running


def test_a_generator_stays_one(recorded: Recorded) -> None:
    def count() -> Iterator[int]:
        yield from range(3)

    made = shim.task(count, ())
    assert inspect.isgeneratorfunction(made) and list(made()) == [0, 1, 2]
    assert recorded.ends == [(events.TASK, "count", "")]


class Account:
    """An actor class of the user's."""

    def __init__(self, amount: int) -> None:
        self.amount = amount

    def add(self, amount: int) -> int:
        self.amount += amount
        return self.amount

    def add_twice(self, amount: int) -> int:
        self.add(amount)
        return self.add(amount)

    async def ask(self) -> int:
        await asyncio.sleep(0)
        return self.amount

    async def stream(self) -> AsyncIterator[int]:
        yield self.amount

    @staticmethod
    def kind() -> str:
        return "account"


def test_methods_are_noted_and_what_they_call_themselves_is_not(recorded: Recorded) -> None:
    made = shim.actor_class(Account, ())
    assert made.__name__ == "Account" and issubclass(made, Account) and made.kind() == "account"
    account: Any = made(1)
    assert account.add_twice(2) == 5
    assert recorded.ends == [(events.CREATE, "Account.__init__", ""), (events.CALL, "Account.add_twice", "")]


def test_asynchronous_methods_stay_so(recorded: Recorded) -> None:
    made: Any = shim.actor_class(Account, ())
    assert inspect.iscoroutinefunction(made.ask) and inspect.isasyncgenfunction(made.stream)

    async def use() -> tuple[int, list[int]]:
        account = made(3)
        return await account.ask(), [item async for item in account.stream()]

    assert asyncio.run(use()) == (3, [3])
    assert [name for _, name, _ in recorded.ends] == ["Account.__init__", "Account.ask", "Account.stream"]


def test_a_class_without_a_constructor_is_noted_too(recorded: Recorded) -> None:
    class Empty:
        pass

    shim.actor_class(Empty, ())()
    assert recorded.ends == [(events.CREATE, "Empty.__init__", "")]


def test_a_function_that_runs_longer_than_its_bound_is_interrupted(recorded: Recorded) -> None:
    def endless() -> None:
        while True:
            pass

    with pytest.raises(TaskTimeoutError, match=r"endless ran longer than its timeout_s=0.05") as caught:
        shim.task(endless, (("timeout_s", 0.05),))()
    assert (caught.value.timeout_s, caught.value.attempt) == (0.05, 1)


def test_a_coroutine_that_runs_longer_than_its_bound_is_interrupted(recorded: Recorded) -> None:
    async def endless() -> None:
        await asyncio.Event().wait()

    with pytest.raises(TaskTimeoutError, match="endless ran longer"):
        asyncio.run(shim.task(endless, (("timeout_s", 0.05),))())


def test_the_users_own_way_to_be_called_is_kept(recorded: Recorded) -> None:
    def add(a: int) -> int:
        return a + 1

    add.__ray_invocation_decorator__ = lambda call: lambda args, kwargs: ["decorated", call(args, kwargs)]  # type: ignore[attr-defined]
    hook = vars(shim.task(add, ()))["__ray_invocation_decorator__"]
    assert hook(lambda args, kwargs: args)((1,), {}) == ["decorated", (1,)]
