"""A `multiprocessing.Pool` whose processes are workers of the session.

Owns names only, each imported on first use: workers load what runs a call, and nothing of what a program holds.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiprocessing import JoinableQueue, TimeoutError

    from sundog.util.multiprocessing.pool import Pool

__all__ = ["JoinableQueue", "Pool", "TimeoutError"]


def __getattr__(name: str) -> object:
    if name == "Pool":
        return import_module("sundog.util.multiprocessing.pool").Pool
    if name in ("JoinableQueue", "TimeoutError"):
        return getattr(import_module("multiprocessing"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
