"""Wrapping functions and classes: the same kind of function, and no span without a context."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from sundog.observe import spans


def plain(number: int) -> int:
    """Add one."""
    return number + 1


def generator(most: int) -> Iterator[int]:
    yield from range(most)


async def coroutine(number: int) -> int:
    return number * 2


async def stream(most: int) -> AsyncIterator[int]:
    for number in range(most):
        yield number


@pytest.mark.parametrize("function", [plain, generator, coroutine, stream])
def test_a_traced_function_is_of_the_same_kind(function: Any) -> None:
    traced = spans.traced_function(function)
    for kind in (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction):
        assert kind(traced) == kind(function)
    assert traced.__name__ == function.__name__ and traced.__doc__ == function.__doc__


def test_the_context_is_taken_out_and_an_inner_call_makes_no_span() -> None:
    carrier = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    assert spans.traced_function(plain)(1, _ray_trace_ctx=carrier) == 2
    assert spans.traced_function(plain)(1) == 2
    made: Any = spans.traced_function(generator)
    assert list(made(3, _ray_trace_ctx=carrier)) == [0, 1, 2]
    made = spans.traced_function(coroutine)
    assert asyncio.run(made(4, _ray_trace_ctx=carrier)) == 8


class Base:
    def inherited(self) -> str:
        return "base"

    @staticmethod
    def fixed() -> int:
        return 7


class Actor(Base):
    def __repr__(self) -> str:
        return "an actor"

    def own(self) -> str:
        return self.inherited()


def test_methods_of_a_class_are_traced_once_and_others_are_left() -> None:
    spans.trace_class(Actor)
    methods = Actor.own, Actor.inherited
    spans.trace_class(Actor)
    assert methods == (Actor.own, Actor.inherited), "not a second time"
    made = Actor(_ray_trace_ctx={})  # type: ignore[call-arg]
    assert made.own(_ray_trace_ctx={}) == "base"  # type: ignore[call-arg]
    assert made.fixed() == 7 and repr(made) == "an actor"
    assert not hasattr(Base.inherited, "__wrapped__"), "the class that it inherits from is left as it is"


@pytest.mark.parametrize("hook", ["", "module", ":function", "module:", 7])
def test_what_is_no_hook_is_refused(hook: Any) -> None:
    with pytest.raises(spans.TracingHookError, match="module:function"):
        spans.check_hook(hook)
