"""Profiles of running processes, as the node knows them: which processes are told to begin and to end.

Owns the specs of those that run. A worker that starts meanwhile is told too, if the profile is of the whole
session. Runs on the node's only thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sundog.wire.control import StartProfile, StopProfile
from sundog.wire.profiles import ProfileSpec

if TYPE_CHECKING:
    from sundog.node.interfaces import NodeBasics
    from sundog.node.rows import Process


class SessionProfiles:
    """The profiles that run in one session."""

    def __init__(self, node: NodeBasics) -> None:
        self.node = node
        self._running: dict[str, tuple[ProfileSpec, list[int]]] = {}  # an empty list means all processes

    def begin(self, spec: ProfileSpec, pids: list[int]) -> list[int]:
        """Have processes profiled, all if none is named; the pids that were told."""
        self._running[spec.id] = spec, pids
        told = [each for each in self.node.processes.values() if each.pid and (not pids or each.pid in pids)]
        for process in told:
            process.line.send(StartProfile(spec))
        return [process.pid for process in told]

    def end(self, profile_id: str) -> list[int]:
        """Have them write what they found; the pids that will."""
        found = self._running.pop(profile_id, None)
        if found is None:
            return []
        told = [p for p in self.node.processes.values() if p.pid and (not found[1] or p.pid in found[1])]
        for process in told:
            process.line.send(StopProfile(profile_id))
        return [process.pid for process in told]

    def forked(self, process: Process) -> None:
        """A worker has started."""
        for spec, pids in self._running.values():
            if not pids:
                process.line.send(StartProfile(spec))
