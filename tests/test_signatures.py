"""Which calls fit a signature, and what a person reads when one does not."""

from __future__ import annotations

import functools
import inspect
import pickle
import subprocess
import sys
from typing import Any

import pytest

from sundog.signatures import Signature, is_bare, is_coroutine, is_generator


class Sample:
    def plain(self, a: int, b: int = 2) -> None: ...

    def keyword(self, *, needed: int) -> None: ...

    def rest(self, *items: int, **named: int) -> None: ...

    @staticmethod
    def free(a: int) -> None: ...


def fits_quickly(signature: Signature, count: int) -> bool:
    return signature.low <= count <= signature.high


@pytest.mark.parametrize(("count", "fits"), [(0, False), (1, True), (2, True), (3, False)])
def test_positional_arguments_are_decided_by_their_number(count: int, fits: bool) -> None:
    assert fits_quickly(Signature.of(Sample.plain, bound=True), count) is fits


def test_a_required_keyword_always_needs_the_full_check() -> None:
    signature = Signature.of(Sample.keyword, bound=True)
    assert not fits_quickly(signature, 0)
    signature.check("keyword", (), {"needed": 1})
    with pytest.raises(TypeError, match="missing a required"):
        signature.check("keyword", (), {})


def test_rest_parameters_take_anything() -> None:
    signature = Signature.of(Sample.rest, bound=True)
    assert fits_quickly(signature, 0) and fits_quickly(signature, 50)
    signature.check("rest", (1, 2), {"x": 3})


def test_a_static_method_has_no_self_to_leave_out() -> None:
    assert fits_quickly(Signature.of(Sample.free), 1)


def test_what_tells_nothing_of_itself_takes_anything() -> None:
    class Mute:
        __signature__ = "none"

        def __call__(self) -> None: ...

    signature = Signature.of(Mute())
    signature.check("mute", (1, 2), {"x": 3})
    assert fits_quickly(signature, 9)


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        ((), {}, "missing a required argument: 'a'"),
        ((1, 2, 3), {}, "too many positional arguments"),
        ((1,), {"c": 1}, "unexpected keyword argument 'c'"),
        ((1,), {"a": 1}, "multiple values for argument 'a'"),
    ],
)
def test_a_call_that_cannot_begin_says_why_and_what_is_taken(
    args: tuple[Any, ...], kwargs: dict[str, Any], words: str
) -> None:
    signature = pickle.loads(pickle.dumps(Signature.of(Sample.plain, bound=True)))
    with pytest.raises(TypeError) as caught:
        signature.check("Sample.plain", args, kwargs)
    assert words in str(caught.value)
    assert "Sample.plain.remote()" in str(caught.value) and "(a, b=…)" in str(caught.value)


def bare(a, b=1, /, c=2, *rest, d, e=3, **named): ...  # type: ignore[no-untyped-def]


def only_keywords(*, a, b=1): ...  # type: ignore[no-untyped-def]


def with_locals(a: int) -> int:
    b = c = a
    return b + c


@functools.wraps(bare)
def wrapper(*args: Any, **kwargs: Any) -> None: ...


def numbers() -> Any:
    yield 1


async def later() -> None: ...


async def stream() -> Any:
    yield 1


CALLABLES = [
    bare,
    only_keywords,
    with_locals,
    wrapper,
    numbers,
    later,
    stream,
    Sample.rest,
    Sample().plain,
    functools.partial(bare, 1),
    functools.partial(numbers),
    functools.partial(later),
    lambda *items: items,
    object.__init__,
]


@pytest.mark.parametrize("function", CALLABLES)
def test_what_code_says_is_what_the_standard_library_says(function: Any) -> None:
    told = inspect.signature(function, follow_wrapped=False).parameters.values()
    assert Signature.of(function).parameters == tuple(
        (each.name, int(each.kind), each.default is not each.empty) for each in told
    )
    assert is_generator(function) == (
        inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
    )
    assert is_coroutine(function) == inspect.iscoroutinefunction(function)


def test_a_wrapper_is_not_taken_at_its_word() -> None:
    assert is_bare(bare)
    assert not is_bare(wrapper)
    assert not is_bare(functools.partial(bare))


def test_a_task_of_a_module_starts_without_the_slow_imports() -> None:
    # Each of them takes longer than the session needs for its first answer to such a task.
    program = """
import sys
import sundog as ray
from os.path import basename
ray.init(num_cpus=1)
assert ray.get(ray.remote(basename).remote("a/b")) == "b"
print([name for name in ("inspect", "cloudpickle", "socket", "dataclasses", "asyncio") if name in sys.modules])
ray.shutdown()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
