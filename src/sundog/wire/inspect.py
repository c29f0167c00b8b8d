"""What a user asked to see of a task or of the calls of an actor: the options that change nothing of its result.

A row that travels in a task's `extra` (`EXTRA_INSPECT`), or with the description of an actor. Values only.
"""

from __future__ import annotations

from typing import Protocol

from sundog.plain import NamedTuple


class Asked(Protocol):
    """The options of a task, an actor or a method."""

    @property
    def post_mortem(self) -> bool:
        """Stop at an exception."""

    @property
    def capsule(self) -> bool:
        """Keep what is needed to run it again."""

    @property
    def profile(self) -> str | None:
        """Measure it: cpu, wall, line, memory, or line:NAME,NAME for functions that it calls, too."""


ALL = "*"  # before a profile: of all tasks of the program, and of those that they submit


class _Everything:
    profile = ""


def measure_everything(profile: str) -> None:
    """Measure all that this process submits from now on, and what that submits in turn."""
    _Everything.profile = f"{ALL}{profile}" if profile else ""


def measured_of_all() -> str:
    """The profile of all that this process submits; empty if none was asked for."""
    return _Everything.profile


class Inspect(NamedTuple):
    """The options that were given."""

    post_mortem: bool = False
    capsule: bool = False
    profile: str = ""


def inspect_of(options: Asked) -> Inspect | None:
    """What to send along; None if nothing was asked for.

    >>> from sundog.options import parse_task_options
    >>> inspect_of(parse_task_options({"num_cpus": 1})), inspect_of(parse_task_options({"post_mortem": True}))
    (None, Inspect(post_mortem=True, capsule=False, profile=''))
    """
    asked = Inspect(options.post_mortem, options.capsule, options.profile or _Everything.profile)
    return asked if any(asked) else None
