"""What is new in the ring of a process, as one row: read where the ring is, taken in by Home.

Owns the row and the reading of it. A worker on another node sends its own once in `push_interval_s`, in a thread; the
rings on the driver's node are read by Home itself, and what was never sent is swept at the end by a task on each
node. Runs in workers, in Home and in these tasks.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import threading
import time
from typing import TYPE_CHECKING, Any

from sundog import events, trust
from sundog.plain import NamedTuple
from sundog.ray_engine import runs

if TYPE_CHECKING:
    from sundog.plain import JsonObject

HOME_NAMESPACE = "_sundog"
HERE = "home"  # marks the folder of the node that Home reads directly
_ANSWER_S = 30.0


class Push(NamedTuple):
    """What is new of a process."""

    facts: JsonObject  # the identity of the process, as `Identity.facts` has it
    first: int  # the number of the first event
    data: bytes  # events, as they are in the ring
    header: bytes
    names_at: int
    names: bytes  # of the file of names and notes, from `names_at` on

    @property
    def is_empty(self) -> bool:
        """Whether nothing is new."""
        return not self.data and not self.names


class Clock(NamedTuple):
    """What a process found out about its clock with a push: the shortest way there and back tells most."""

    trip_s: float
    ahead_s: float  # its clock minus Home's


def home_name(job: str) -> str:
    """The name of a job's Home."""
    return f"home-{job}"


def read_push(ring: str, after: int, names_at: int) -> Push | None:
    """What is new in a ring since an event and a position; None if it is no ring."""
    slots = events.read_slots(ring, after)
    if slots is None:
        return None
    try:
        with open(f"{ring}.json", encoding="utf-8") as file:
            facts = json.load(file)
        with open(ring, "rb") as file:
            header = file.read(events.HEADER_BYTES)
    except (OSError, ValueError):
        return None
    names = b""
    with contextlib.suppress(OSError), open(f"{ring}.names", "rb") as file:
        file.seek(names_at)
        names = file.read()
    return Push(facts, slots.first, slots.data, header, names_at, names[: names.rfind(b"\n") + 1])


def rings_in(folder: str) -> list[str]:
    """The rings of the processes of a node, but for another user's: Ray's folder is open to all users."""
    return [ring for ring in glob.glob(f"{glob.escape(folder)}/rings/*.ring") if trust.is_own_file(ring)]


def process_of(ring: str) -> str:
    """The id of the process that a ring is of, in hexadecimal."""
    return os.path.basename(ring).split(".")[0]


class Pusher:
    """Sends what is new in this worker's ring."""

    def __init__(self, ring: str, job: str, every_s: float) -> None:
        self._ring = ring
        self._job = job
        self._every_s = every_s
        self._after = self._names_at = 0
        self._clock: Clock | None = None
        self._home: object = None
        self._stop = threading.Event()
        threading.Thread(target=self._run, name="sundog-push", daemon=True).start()

    def stop(self) -> None:
        """Send no more."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            # If a push fails, the ring keeps its events for the next push or for the sweep.
            with contextlib.suppress(Exception):
                self.push()

    def push(self) -> None:
        """Send what is new; an idle worker is silent, so that its node counts as idle."""
        push = read_push(self._ring, self._after, self._names_at)
        if push is None or (push.is_empty and not runs.now_running):
            return
        began = time.time()
        there = self._send("push", push, self._clock)
        back = time.time()
        trip_s = back - began
        if self._clock is None or trip_s <= self._clock.trip_s:
            first = self._clock is None
            self._clock = Clock(trip_s, (began + back) / 2 - there)
            if first:
                self._send("clock", push.facts["node"], self._clock)
        self._after = push.first - 1 + len(push.data) // events.EVENT_BYTES
        self._names_at += len(push.names)

    def _send(self, verb: str, *args: object) -> Any:
        import ray

        if self._home is None:
            self._home = ray.get_actor(home_name(self._job), HOME_NAMESPACE)
        # Not ray.get(): in an asyncio actor it warns the user of blocking the loop, which this thread does
        # not.
        return getattr(self._home, verb).remote(*args).future().result(_ANSWER_S)
