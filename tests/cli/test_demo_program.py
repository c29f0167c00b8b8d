"""The program that `sundog demo` runs: its three ways count the same primes."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest


class FakeMethod:
    """What `.remote()` is called on: runs at once, and returns the value in place of a ref."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self.remote = call

    def options(self, **_: object) -> FakeMethod:
        return self


class FakeHandle:
    """An actor that lives in this process."""

    def __init__(self, made: object) -> None:
        self._made = made

    def __getattr__(self, name: str) -> FakeMethod:
        return FakeMethod(getattr(self._made, name))


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    def remote(target: Any) -> FakeMethod:
        return FakeMethod((lambda: FakeHandle(target())) if isinstance(target, type) else target)

    ray = ModuleType("ray")
    vars(ray).update(remote=remote, get=lambda given: given, init=lambda: None)
    monkeypatch.setitem(sys.modules, "ray", ray)
    yield importlib.import_module("sundog.cli.demo_program")
    del sys.modules["sundog.cli.demo_program"]


def test_primes_are_counted_from_the_first_up_to_and_without_the_last(program: Any) -> None:
    assert program.primes_between(0, 2) == 0
    assert program.primes_between(2, 3) == 1
    assert program.primes_between(0, 30) == 10
    assert program.primes_between(24, 29) == 0


def test_the_three_ways_agree_and_each_says_what_it_counted(
    program: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(program, "BLOCKS", 3)
    monkeypatch.setattr(program, "BLOCK_SIZE", 10)
    program.main()
    assert capsys.readouterr().out == (
        "one by one: 10 primes below 30\nall at once: 10 primes below 30\nthrough one actor: 10 primes below 30\n"
    )
