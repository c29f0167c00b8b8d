"""The session's complete history: what processes write into their rings is copied into segments in time.

::

    rings/*.ring ──every quarter of a second──► records/*.seg ──beyond the quota──► removed, oldest first;
       └─ of a process that is gone: emptied, with its names; the ring's files are removed      their totals are kept

Owns how far each ring has been copied, the facts that the node itself records (`fact`), and the quota. An event is not
looked at, only copied (`observe/segments.py` has the layout), but for the few that carry a measured peak of memory:
learnt admission is told of these (`observers`). What a reader wants to know it finds in segments and rings together
(`observe/index.py`), so a node that is killed loses nothing that is in a ring. While the disk is full, rings go round
and what they lose is counted. Runs on the node's only thread.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import time
from collections import deque
from typing import TYPE_CHECKING

from sundog import event_facts, event_names, events, ring_looks
from sundog.plain import field, plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from sundog.node.interfaces import NodeBasics
    from sundog.observe.segments import Writer

    Observer = Callable[[str, int], None]

_EVERY_S = 0.25  # at the rate of the fastest actor, a ring of 65,536 events is overwritten in 0.4 s
_FIRST_S = 0.25
_MANY = 100  # with more rings than this, quiet rings are read less often
_QUIET_LOOKS = 4
_PORTION = 1 << 17  # events copied from one ring at a time: 8 MB
_DEAD_PORTION = 512  # rings of dead processes that are emptied at a time
_FLAGS_AT = 46
# Of many short tasks few are measured; a search finds the measured ones 30 times faster than a loop over all.
_FLAGGED = re.compile(b"[^\\x00]").finditer


@plain()
class Tail:
    """How far a ring has been copied."""

    path: str
    after: int = 0
    lost: int = 0  # events that were overwritten before they were copied
    hole: int = 0  # the number of an event that was missing at the last read, though later events were there
    quiet: int = 0  # number of reads that found nothing new
    is_actor: bool = False
    names: dict[int, tuple[str, str]] = field(default_factory=dict)
    names_at: int = 0


class Records:
    """Copies rings, records facts, keeps the quota."""

    def __init__(self, node: NodeBasics) -> None:
        self.node = node
        self.observers: list[Observer] = []
        """Called with name and peak memory of every task whose memory was measured, or seen before it died."""
        self.enabled = bool(node.config.record_enabled)
        self.full = False  # the last write failed because the disk was full
        self._writer: Writer | None = None
        self._tails: dict[bytes, Tail] = {}
        self._dead: deque[bytes] = deque()
        self._actors: deque[str] = deque(maxlen=10_000)  # ids of processes that were actors, in hexadecimal
        self._turn = 0
        self._early: str | None = ""  # facts of the first moments, not yet written

    @property
    def writer(self) -> Writer:
        """The segments; loaded when the first event is copied, for the first task does not wait for it."""
        if self._writer is None:
            from sundog.observe.segments import Writer

            config = self.node.config
            self._writer = Writer(
                self.node.session["path"], self.node.node_id, config.record_events_max, config.record_age_s
            )
        return self._writer

    def start(self) -> None:
        """Copy on from now on."""
        if self.enabled:
            self.node.loop.after(_FIRST_S, self._tick)

    def _tick(self) -> None:
        self.node.loop.after(_EVERY_S, self._tick)
        self.write_early()
        self.drain()
        self._keep_quota()

    # ------------------------------------------------------------------ copying
    def drain(self) -> None:
        """Copy what is new in every ring."""
        self._turn += 1
        for _ in range(min(len(self._dead), _DEAD_PORTION)):
            if not self._empty(self._dead[0]):
                break
            self._dead.popleft()
        living = list(self.node.processes)
        for process_id in living:
            tail = self._tail(process_id)
            if len(living) > _MANY and tail.quiet > _QUIET_LOOKS and (self._turn + process_id[0]) % 4:
                continue
            if not self._copy(process_id, tail):
                return

    def _tail(self, process_id: bytes) -> Tail:
        return self._tails.get(process_id) or self._tails.setdefault(process_id, Tail(self.ring(process_id)))

    def _copy(self, process_id: bytes, tail: Tail, *, final: bool = False) -> bool:
        """Copy what is new in one ring; False if the disk has no room for it."""
        if not final and not ring_looks.has_news(tail.path, tail.after):
            tail.quiet += 1
            return True
        while True:
            slots = events.read_slots(tail.path, tail.after, _PORTION)
            if slots is None or not slots.data:
                tail.quiet += 1
                return True
            tail.quiet = 0
            data = slots.data if final else _before_hole(slots, tail)
            info = slots.info
            tail.is_actor = tail.is_actor or bool(info.actor_id)
            last = slots.first - 1 + len(data) // events.EVENT_BYTES
            if data:
                lost = tail.lost + slots.first - 1 - tail.after
                try:
                    self.writer.append(
                        _EVENTS,
                        data,
                        process_id,
                        pid=info.pid,
                        role=info.role,
                        job_id=info.job_id,
                        actor_id=info.actor_id,
                        first=slots.first,
                        unwritten=info.unwritten + lost,
                    )
                except OSError as error:
                    self._failed(error)
                    return False
                self.full = False
                tail.after, tail.lost = last, lost
                self._tell(tail, data)
            if len(slots.data) < _PORTION * events.EVENT_BYTES:
                return True

    def _failed(self, error: OSError) -> None:
        if not self.full:
            self.full = True
            self.node.log(f"records cannot be written now, what rings lose is counted: {error}")
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EBADF):
            self.writer.anew()

    def _empty(self, process_id: bytes) -> bool:
        """Copy a dead process' names and the last events of its ring; False if the disk has no room."""
        tail = self._tail(process_id)
        if not self._copy(process_id, tail, final=True):
            return False
        with contextlib.suppress(OSError):
            with open(f"{tail.path}.names", "rb") as file:
                names = file.read()
            try:
                if names:
                    self.writer.append(_NAMES, names, process_id)
            except OSError as error:
                self._failed(error)
                return False
        begun, begun_s = events.started_last(tail.path), events.started_last_at(tail.path)
        sample = events.last_sample(tail.path)
        if begun is not None:
            seen = (
                {}
                if sample is None or sample.task_id != begun
                else {"line": sample.line, "own_bytes": sample.own_bytes}
            )
            name = events.started_name(tail.path)
            self.fact("begun", process=process_id.hex(), task=begun.hex(), at_s=begun_s, name=name, **seen)
        waits = event_facts.blocked(tail.path)
        if waits is not None:
            self.fact(
                "blocked",
                process=process_id.hex(),
                since_s=waits.since_s,
                object=waits.object_id.hex(),
                task=waits.task_id.hex(),
                kind=waits.kind,
                site=waits.site,
            )
        if tail.is_actor:
            self._actors.append(process_id.hex())
        return True

    # ------------------------------------------------------------------ learnt admission
    def _tell(self, tail: Tail, data: bytes) -> None:
        flags = data[_FLAGS_AT :: events.EVENT_BYTES]
        if not self.observers:
            return
        for found in _FLAGGED(flags):
            fields = events.EVENT.unpack_from(data, found.start() * events.EVENT_BYTES)
            self._tell_one(tail, fields[4], fields[5], fields[6], int(fields[9]))

    def _tell_one(self, tail: Tail, number: int, kind: int, flag: int, peak: int) -> None:
        if kind == events.TASK and flag & events.MEASURED and not tail.is_actor:
            name = self._name(tail, number)[0]
        elif kind == events.LOST and peak:
            name, worker = self._name(tail, number)
            if worker in self._actors or self._is_actor(worker):
                return
        else:
            return
        for observe in self.observers:
            observe(name, peak)

    def _is_actor(self, worker: str) -> bool:
        tail = self._tails.get(bytes.fromhex(worker))
        return tail is not None and tail.is_actor

    def _name(self, tail: Tail, number: int) -> tuple[str, str]:
        if number not in tail.names:
            more, tail.names_at = event_names.read_more_names(tail.path, tail.names_at)
            tail.names.update(more)
        return tail.names.get(number, ("?", ""))

    # ------------------------------------------------------------------ facts of the node itself
    def fact(self, kind: str, /, **facts: object) -> None:
        """Record something that the node did or saw, at once: it is there should the node be killed. Never raises."""
        if not self.enabled:
            return
        line = json.dumps({"fact": kind, "s": time.time(), **facts}, default=repr) + "\n"
        if self._writer is None and self._early is not None:
            self._early += line  # kept in memory, so the first task does not wait for a file
            return
        self._write_facts(line)

    def write_early(self) -> None:
        """Write the facts of the first moments: a reader asks for them, or there is time now."""
        early, self._early = self._early, None
        if early:
            self._write_facts(early)

    def _write_facts(self, line: str) -> None:
        try:
            self.writer.append(_FACTS, line.encode(errors="replace"), self.node.node_id[:8], pid=os.getpid())
        except OSError as error:
            self._failed(error)

    # ------------------------------------------------------------------ the dead, and the quota
    def process_died(self, process_id: bytes) -> None:
        """A process is gone: what it wrote last is copied soon."""
        if self.enabled:
            self._dead.append(process_id)

    def reads(self, process_id: bytes) -> bool:
        """Whether there is more to copy of a process that is gone."""
        return process_id in self._dead

    def forget(self, process_id: bytes) -> None:
        """A dead process' ring is removed: it is in the segments."""
        self._tails.pop(process_id, None)

    def _keep_quota(self) -> None:
        if self._writer is None:
            return
        for path in self._writer.surplus()[:1]:  # one per turn: it takes some milliseconds
            from sundog.observe import dropped

            with contextlib.suppress(OSError):
                dropped.fold(self.node.session["path"], path)
                os.unlink(path)
            self._writer.removed(path)

    def close(self) -> None:
        """The session ends: copy what is there, so that a reader finds it in one place."""
        if self.enabled:
            with contextlib.suppress(OSError):
                self.write_early()
                self.drain()
        if self._writer is not None:
            self._writer.close()

    def ring(self, process_id: bytes) -> str:
        """Where a process' ring is."""
        return os.path.join(self.node.session["path"], "rings", f"{process_id.hex()}.ring")


_EVENTS, _NAMES, _FACTS = (
    1,
    2,
    3,
)  # kinds of blocks of `observe.segments`, which is loaded on demand


def _before_hole(slots: events.Slots, tail: Tail) -> bytes:
    """The slots up to one that is being written: it is waited for, once."""
    numbers = memoryview(slots.data).cast("Q")[7::8].tolist()
    if numbers == list(range(slots.first, slots.first + len(numbers))):
        return slots.data
    at = next(index for index, number in enumerate(numbers) if number != slots.first + index)
    # the ring has wrapped around and overwritten the event
    if tail.hole == slots.first + at or numbers[at] > slots.first + at:
        return slots.data
    tail.hole = slots.first + at
    return slots.data[: at * events.EVENT_BYTES]
