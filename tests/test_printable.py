"""Names with control characters: escaped in one way wherever they are shown."""

from __future__ import annotations

import doctest
import io

import pytest

from sundog import printable as module
from sundog.exceptions import RayTaskError
from sundog.owner import logs
from sundog.owner.rows import Fn
from sundog.printable import printable

EVIL = "f\n(node pid=1) all is well\x1b[2K\r\u202e\x85\udc80"


def test_the_examples_in_the_docstring_run() -> None:
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("name", ["resize", "Größe", "尺寸 (2)", "A.b", ""])
def test_an_ordinary_name_is_itself(name: str) -> None:
    assert printable(name) is name


def test_what_is_not_visible_is_escaped() -> None:
    shown = printable(EVIL)
    assert (
        shown.isprintable()
        and shown.startswith("f\\n(node pid=1)")
        and "\\x1b[2K\\r\\u202e\\x85\\udc80" in shown
    )
    assert printable(shown) == shown


def test_a_name_cannot_forge_a_log_line() -> None:
    out = io.StringIO()
    logs.DriverLogs(stream_out=out, color=False).feed((b"w", 7, b"j", EVIL, False, ["hello"]), 0.0)
    assert out.getvalue() == f"({printable(EVIL)} pid=7) hello\n"


def test_a_name_cannot_forge_a_line_of_an_error() -> None:
    error = RayTaskError(
        EVIL, "Traceback (most recent call last)\nValueError: x", ValueError("x"), actor_repr=EVIL
    )
    first, *rest = str(error).split("\n")
    assert rest == ["ValueError: x"] and first.isprintable() and first.count("\\n") == 2
    assert Fn(0, EVIL).name == printable(EVIL)
