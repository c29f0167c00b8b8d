"""A profile of a running session, asked for from outside of its processes.

::

    BeginProfile ──► node ──StartProfile──► processes      EndProfile ──► node ──StopProfile──► each writes <pid>.json

Owns the folder and the waiting for the parts. Runs in the caller's process: a command, or a program's own `with`.
"""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING

from sundog.profiling.rows import Profile, begin, read
from sundog.profiling.sampler import RATE_HZ
from sundog.wire.profiles import ProfileSpec
from sundog.wire.requests import BeginProfile, EndProfile

if TYPE_CHECKING:
    from sundog.wire.requests import AskNode

_PARTS_S = 30.0
_LIMIT_S = 24 * 3600.0


class RunningProfile:
    """A profile that has begun."""

    def __init__(
        self,
        ask: AskNode,
        session_path: str,
        kind: str,
        what: str,
        pids: list[int],
        *,
        rate_hz: float = RATE_HZ,
        limit_s: float = _LIMIT_S,
        native: bool = False,
    ) -> None:
        self._ask = ask
        name = f"{time.strftime('%H%M%S')}-{kind}-{os.urandom(2).hex()}"
        self.folder = f"{session_path}/profiles/{name}"
        begin(self.folder, kind, what)
        self.spec = ProfileSpec(name, kind, rate_hz, limit_s, self.folder, native)
        self.pids: list[int] = ask(BeginProfile(self.spec, pids))

    def end(self) -> Profile:
        """End it, and wait until every process has written its part, or is gone."""
        pids: list[int] = self._ask(EndProfile(self.spec.id))
        deadline = time.monotonic() + _PARTS_S
        while time.monotonic() < deadline and any(self._is_missing(pid) for pid in pids):
            time.sleep(0.01)
        return read(self.folder)

    def drop(self) -> None:
        """Remove its folder: no process takes part."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _is_missing(self, pid: int) -> bool:
        return os.path.exists(f"/proc/{pid}") and not os.path.exists(f"{self.folder}/{pid}.json")
