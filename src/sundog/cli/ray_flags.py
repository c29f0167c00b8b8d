"""Flags of Ray's commands that have no meaning here: taken, so that a script written for Ray runs.

Owns the flags and nothing else. They are hidden from the help. Runs in the terminal's process, main thread.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., object])

_HIDDEN: dict[str, Any] = {"expose_value": False, "hidden": True, "help": "Accepted; no effect here."}


def style_flags(function: F) -> F:
    """`--log-style`, `--log-color` and `-v`: how Ray writes what it does."""
    function = click.option("--log-style", type=click.Choice(["auto", "record", "pretty"]), **_HIDDEN)(
        function
    )
    function = click.option("--log-color", type=click.Choice(["auto", "false", "true"]), **_HIDDEN)(function)
    return click.option("-v", "--verbose", count=True, **_HIDDEN)(function)
