"""The profile of this whole process, from a message of the node to the next.

Owns the recorders that run here, by the id of their profile. A recorder ends by itself after its limit, should
the process that asked for it be gone. What it found is written into the profile's folder. Called by `owner/profiles.py`
in drivers and workers alike, on the thread that does what must not run under the owner's lock.
"""

from __future__ import annotations

import os
import threading

from sundog import notices
from sundog.profiling.memory import NoMemray, Tracker
from sundog.profiling.native import NativeSampler
from sundog.profiling.rows import Part, write_part
from sundog.profiling.sampler import StackSampler
from sundog.wire.profiles import ProfileSpec

_running: dict[str, Recorder] = {}


class Recorder:
    """One profile of this process."""

    def __init__(self, spec: ProfileSpec, role: str, session_path: str) -> None:
        self.spec = spec
        self._role, self._session = role, session_path
        self._sampler: StackSampler | NativeSampler | None = None
        self._tracker: Tracker | None = None
        self._lock = threading.Lock()
        self._timer = threading.Timer(spec.limit_s, self.stop)
        self._timer.daemon = True
        self._timer.name = "sundog-profile-limit"

    def start(self) -> None:
        """Begin."""
        if self.spec.kind == "memory":
            tracker = Tracker(f"{self.spec.folder}/{os.getpid()}.bin", native=self.spec.native)
            self._tracker = tracker if tracker.start() else None
        elif self.spec.native:
            file = f"{self.spec.folder}/{os.getpid()}.raw"
            spy = NativeSampler(self.spec.kind, self.spec.rate_hz, self._role, file, self.spec.limit_s)
            spy.start()
            self._sampler = spy
        else:
            self._sampler = StackSampler(self.spec.kind, self.spec.rate_hz, self._role)
            self._sampler.start()
        self._timer.start()

    def stop(self) -> None:
        """End, and write what was found; a second time nothing happens."""
        self._timer.cancel()
        with self._lock:
            sampler, self._sampler = self._sampler, None
            tracker, self._tracker = self._tracker, None
        part = Part(os.getpid(), self._role, self._session)
        if sampler is not None:
            try:
                sampler.stop()
                part = part._replace(samples=sampler.result())
            except NoMemray as error:
                notices.warn(f"No {self.spec.kind} profile of pid {os.getpid()}: {error}")
        elif tracker is not None:
            part = part._replace(memory=tracker.stop())
        elif os.path.exists(f"{self.spec.folder}/{os.getpid()}.json"):
            return
        write_part(self.spec.folder, part)


def start(spec: ProfileSpec, role: str, session_path: str) -> None:
    """Begin a profile of this process; one that cannot be is told of, and leaves an empty part."""
    made = _running[spec.id] = Recorder(spec, role, session_path)
    try:
        made.start()
    except (NoMemray, RuntimeError) as error:
        notices.warn(f"No {spec.kind} profile of pid {os.getpid()}: {error}")


def stop(profile_id: str) -> None:
    """End a profile of this process."""
    found = _running.pop(profile_id, None)
    if found is not None:
        try:
            found.stop()
        except OSError as error:
            notices.warn(f"The profile of pid {os.getpid()} cannot be written: {error}")
