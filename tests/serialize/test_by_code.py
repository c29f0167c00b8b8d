"""Plain functions of a script are pickled without cloudpickle, and come out as cloudpickle would have them."""

from __future__ import annotations

import concurrent.futures
import pickle
import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import pytest

from sundog.serialize import by_code
from sundog.serialize.pack import pack_function

SCRIPT = '''
import concurrent.futures
import math
import os.path as where
import sys
from functools import reduce
from math import sqrt
from string import Template

SIZES = (1, 2, (3.5, "x"))
LIMIT = 10
counter = 0


class Own:
    pass


own = Own()
items = [1, 2]


def helper(x):
    return math.floor(sqrt(x)) + LIMIT


def plain(x: int, *, add: float = 0.5, names: list[str] | None = None) -> int:
    """What it does."""
    return helper(x) + reduce(max, SIZES[:2]) + len(where.basename("/a/b")), [helper(each) for each in (4, 9)]


def recursive(n):
    return 1 if n < 2 else n * recursive(n - 1)


def even(n):
    return n == 0 or odd(n - 1)


def odd(n):
    return n != 0 and even(n - 1)


def bump():
    global counter
    counter += 1
    return read()


def read():
    return counter


def uses_submodule():
    return concurrent.futures.__name__, Template("$a").substitute(a=__name__)


def with_class():
    return Own()


def with_instance():
    return own


def with_list():
    return items


def with_class_as_default(kind=Own):
    return kind


def with_class_as_annotation(kind: Own):
    return kind


def outer():
    x = 1

    def inner():
        return x

    return inner


closure = outer()
unnamed = lambda x: x + LIMIT
marked = lambda: 1
marked.note = 1


async def coroutine():
    return LIMIT


def fails():
    return 1 / 0
'''


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A script of the user's, which is the program's main module; cloudpickle is not imported."""
    main = ModuleType("__main__")
    main.__file__ = "/home/user/script.py"
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.delitem(sys.modules, "cloudpickle", raising=False)
    exec(compile(SCRIPT, "/home/user/script.py", "exec", dont_inherit=True), vars(main))
    return main


def _again(function: FunctionType) -> Any:
    blob = by_code.pickled(function)
    assert blob is not None
    return pickle.loads(blob)


def test_a_plain_function_comes_with_all_that_it_uses(script: ModuleType) -> None:
    made = _again(script.plain)

    assert made(16) == script.plain(16)
    assert made.__globals__ is not vars(script)
    assert made.__globals__["helper"].__globals__ is made.__globals__
    for attribute in by_code._OWN:
        assert getattr(made, attribute) == getattr(script.plain, attribute)
    assert made.__code__ == script.plain.__code__
    assert made.__code__.co_filename == "/home/user/script.py"


def test_its_globals_are_those_of_the_moment(script: ModuleType) -> None:
    vars(script)["LIMIT"] = 100
    made = _again(script.helper)
    vars(script)["LIMIT"] = 1

    assert made(4) == 102


def test_functions_that_call_each_other_are_made_once(script: ModuleType) -> None:
    assert _again(script.recursive)(5) == 120
    assert _again(script.even)(10) is True
    assert _again(script.bump)() == 1


def test_modules_and_submodules_are_imported_where_it_runs(script: ModuleType) -> None:
    blob = by_code.pickled(script.uses_submodule)
    assert blob is not None
    assert b"concurrent.futures" in blob
    assert pickle.loads(blob)() == (concurrent.futures.__name__, "__main__")


def test_an_error_shows_the_line_of_the_script(script: ModuleType) -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        _again(script.fails)()

    assert raised.traceback[-1].frame.code.raw.co_filename == "/home/user/script.py"
    assert raised.traceback[-1].lineno == script.fails.__code__.co_firstlineno


@pytest.mark.parametrize("name", ["unnamed", "coroutine", "read"])
def test_other_kinds_of_plain_functions_are_taken_too(script: ModuleType, name: str) -> None:
    function = getattr(script, name)
    made = _again(function)

    assert made.__code__ == function.__code__
    assert made.__qualname__ == function.__qualname__


@pytest.mark.parametrize(
    "name",
    [
        "with_class",
        "with_instance",
        "with_list",
        "with_class_as_default",
        "with_class_as_annotation",
        "closure",
        "marked",
        "reduce",
    ],
)
def test_what_is_not_plain_is_left_to_cloudpickle(script: ModuleType, name: str) -> None:
    function = getattr(script, name)

    assert not isinstance(function, FunctionType) or by_code.pickled(function) is None


def test_a_function_of_another_module_is_not_plain(script: ModuleType) -> None:
    def local() -> int:
        return 1

    assert by_code.pickled(local) is None  # type: ignore[arg-type]


def test_a_long_constant_and_a_module_that_cannot_be_imported_are_refused(script: ModuleType) -> None:
    vars(script)["LIMIT"] = "x" * 5000
    assert by_code.pickled(script.helper) is None
    vars(script)["LIMIT"] = ModuleType("made_here")
    assert by_code.pickled(script.helper) is None


def test_a_strange_global_is_left_to_cloudpickle(script: ModuleType) -> None:
    class Strange(type):
        def __getattribute__(cls, name: str) -> object:
            raise RuntimeError("no name")

    vars(script)["LIMIT"] = Strange("Odd", (), {})

    assert by_code.pickled(vars(script)["helper"]) is None


def test_the_same_function_has_the_same_bytes(script: ModuleType) -> None:
    first = by_code.pickled(script.plain)
    kept = [vars(script)["plain"].__code__.co_consts, script.plain.__code__.co_names]

    assert by_code.pickled(script.plain) == first
    assert len(kept) == 2


def test_cloudpickle_takes_over_once_it_is_imported(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, captured = pack_function(script.helper)
    assert b"by_code" in ours
    assert captured == []
    import cloudpickle  # noqa: F401

    theirs, _ = pack_function(script.helper)
    assert b"by_code" not in theirs
    made: list[Callable[[int], int]] = [pickle.loads(ours), pickle.loads(theirs)]
    assert made[0](9) == made[1](9) == 13


@pytest.mark.parametrize("name", ["plain", "recursive", "even", "bump", "uses_submodule", "unnamed", "fails"])
def test_a_function_comes_out_as_cloudpickle_would_have_it(script: ModuleType, name: str) -> None:
    function = getattr(script, name)
    ours = _again(function)
    import cloudpickle

    theirs = pickle.loads(cloudpickle.dumps(function, 5))

    assert ours.__code__ == theirs.__code__
    for attribute in by_code._OWN:
        assert getattr(ours, attribute) == getattr(theirs, attribute), attribute
    assert ours.__dict__ == theirs.__dict__
    # We look up all names of the code, cloudpickle those that its bytecode reads as globals.
    assert ours.__globals__.keys() >= theirs.__globals__.keys()
    assert ours.__globals__["__name__"] == theirs.__globals__["__name__"] == "__main__"
