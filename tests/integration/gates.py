"""Gates between a test and what runs in its workers: files, for they are seen by every process.

Imports next to nothing: a function of a test that mentions this module has its worker import it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

TIMEOUT_S = 120.0


def await_true(question: Callable[[], object], what: str, timeout_s: float = TIMEOUT_S) -> None:
    """Poll for what sends no event."""
    deadline = time.monotonic() + timeout_s
    while not question():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {timeout_s} s")
        time.sleep(0.005)


def await_file(path: Path) -> None:
    """In a task or an actor: wait until the test has made a file."""
    await_true(path.exists, str(path))


class Gate:
    """Lets tasks wait for their test: files, since they work across processes without sundog."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def enter(self, name: str = "") -> None:
        """In a task: say that it runs, then wait until the test lets it go."""
        (self.folder / f"in-{name}-{os.getpid()}-{time.monotonic_ns()}").touch()
        while not (self.folder / f"open-{name}").exists() and not (self.folder / "open").exists():
            time.sleep(0.005)

    def inside(self, name: str = "") -> int:
        """How many tasks have come this far."""
        return len(list(self.folder.glob(f"in-{name}-*")))

    def open(self, name: str | None = None) -> None:
        """Let tasks go."""
        (self.folder / ("open" if name is None else f"open-{name}")).touch()
