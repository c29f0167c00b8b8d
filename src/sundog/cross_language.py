"""Functions and actors written in Java or C++: Ray's names for them, which refuse here.

sundog runs Python alone. Runs in any process.
"""

from __future__ import annotations

from enum import Enum
from typing import NoReturn


class Language(Enum):
    """The languages that Ray's workers can run; sundog's run Python."""

    PYTHON = 0
    JAVA = 1
    CPP = 2


def _refuse(kind: str, name: str) -> NoReturn:
    raise NotImplementedError(f"{name} is written in {kind}, and sundog's workers run Python only.")


def java_function(class_name: str, function_name: str) -> NoReturn:
    """Refuses: there are no Java workers."""
    _refuse("Java", f"{class_name}.{function_name}")


def java_actor_class(class_name: str) -> NoReturn:
    """Refuses: there are no Java workers."""
    _refuse("Java", class_name)


def cpp_function(function_name: str) -> NoReturn:
    """Refuses: there are no C++ workers."""
    _refuse("C++", function_name)


def cpp_actor_class(create_function_name: str, class_name: str) -> NoReturn:
    """Refuses: there are no C++ workers."""
    _refuse("C++", class_name)
