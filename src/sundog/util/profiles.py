"""`with sundog.util.profile(...)`: a profile of a part of a program, with all that its tasks do meanwhile.

Owns nothing: the measuring is `sundog.profiling`. Runs in the caller's process; the session is started if there is
none.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sundog import api

if TYPE_CHECKING:
    from sundog.profiling.rows import Profile

__all__ = ["ProfileResult", "profile"]


class ProfileResult:
    """What a profile found; empty until its `with` has ended."""

    def __init__(self) -> None:
        self.profile: Profile | None = None

    def table(self) -> str:
        """As text: by remote function."""
        from sundog.profiling import merge

        return "" if self.profile is None else merge.table(self.profile)

    def seconds(self) -> dict[str, float]:
        """Seconds of each remote function; "driver" is this program itself."""
        from sundog.profiling import merge

        parts = self.profile.parts if self.profile is not None else []
        return {row.label: row.seconds for row in merge.by_function(parts)}

    def html(self) -> str:
        """The flame graph as one page; writes it beside the profile, and returns its path."""
        from sundog.profiling import flame

        if self.profile is None:
            raise ValueError("The profile has not ended: leave its `with` block first.")
        path = f"{self.profile.folder}/flame.html"
        with open(path, "w", encoding="utf-8") as file:
            file.write(flame.page(self.profile))
        with open(f"{self.profile.folder}/speedscope.json", "w", encoding="utf-8") as file:
            json.dump(flame.speedscope(self.profile), file)
        return path

    def __repr__(self) -> str:
        return self.table() or "ProfileResult(has not ended)"


@contextlib.contextmanager
def profile(kind: str = "cpu", *, rate_hz: float = 100.0) -> Iterator[ProfileResult]:
    """Profile this program and all workers of its session while the block runs.

    Args:
        kind: "cpu" (processor time), "wall" (time on the clock) or "memory" (memray).
        rate_hz: Looks a second.

    Raises:
        ValueError: there is no such kind.
    """
    if kind not in ("cpu", "wall", "memory"):
        raise ValueError(
            f"profile({kind!r}) is not allowed: 'cpu', 'wall' or 'memory'. Lines: @remote(profile='line')."
        )
    from sundog.owner import context
    from sundog.profiling.session import RunningProfile

    engine = api.engine_or_init()
    result = ProfileResult()
    running = RunningProfile(
        engine.owner.control.request, str(context.facts.session["path"]), kind, "a block", [], rate_hz=rate_hz
    )
    try:
        yield result
    finally:
        result.profile = running.end()
