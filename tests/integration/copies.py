"""Results that live in segments, and the owner who knows where: for tests of what becomes of an object's copy."""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

from typing import Any

import sundog
from sundog import engines

LARGE = 200_000


def owner() -> Any:
    """The owner of this process."""
    engine = engines.current()
    assert engine is not None
    return engine.owner


@sundog.remote
def large(mark: int, runs: str = "") -> bytes:
    """A result in a segment; each run leaves a line in the file `runs`."""
    if runs:
        with open(runs, "a") as file:
            file.write(f"{mark}\n")
    return bytes([mark]) * LARGE
