"""The fingerprint of code: the same for the same source wherever it stands, another for another body."""

from __future__ import annotations

import functools
import subprocess
import sys

from sundog.serialize.fingerprint import fingerprint


def made(source: str) -> object:
    names: dict[str, object] = {}
    exec(source, names)
    return names["f"]


def test_moving_a_function_changes_nothing_and_changing_its_body_does() -> None:
    one = fingerprint(made("def f(x):\n    return x + 1\n"))

    assert one == fingerprint(made("\n\n# moved\ndef f(x):\n    return x + 1\n"))
    for other in ("return x + 2", "return x - 1", "return (lambda y: y)(x)", "y = x; return y"):
        assert one != fingerprint(made(f"def f(x):\n    {other}\n"))


def test_a_nested_function_counts() -> None:
    source = "def f():\n    def inner():\n        return {}\n    return inner\n"

    assert fingerprint(made(source.format(1))) != fingerprint(made(source.format(2)))


def test_a_wrapper_has_the_fingerprint_of_what_it_wraps() -> None:
    def work() -> int:
        return 7

    @functools.wraps(work)
    def wrapper() -> int:
        return work()

    assert fingerprint(wrapper) == fingerprint(work)


def test_a_class_has_one_of_all_its_methods_and_a_builtin_has_none() -> None:
    class One:
        def a(self) -> int:
            return 1

    class Two:
        def a(self) -> int:
            return 2

    assert fingerprint(One) and fingerprint(One) != fingerprint(Two)
    assert fingerprint(len) == ""


def test_sets_of_strings_give_the_same_in_every_process() -> None:
    program = (
        "from sundog.serialize.fingerprint import fingerprint\n"
        "print(fingerprint(lambda x: x in {'a', 'b', 'c', 'd', 'e'}))"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }

    assert len(told) == 1
