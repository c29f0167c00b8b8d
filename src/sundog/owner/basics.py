"""Basics: what every part of an owner stands on, before there is any part.

::

    me, ids, config     the id of this process, what makes ids of tasks and objects, the settings
    lock, closed        the one lock of all tables; why the session has ended, if it has
    reactor             which thread reads the sockets                          reactor.py
    deliveries          what must not run under the lock                        deliveries.py
    objects             values, waiters, references, frees                      objects.py, nested.py, unread.py
    agenda, pauses      what is done later                                      agenda.py, pauses.py
    segments, ring      the files of this process: objects in shared memory, the flight recorder
    …_block, run_here   what a worker adds: what to do around a wait

Owns these and the hooks of a worker. Refuses to know the parts: each part is given the basics and, by name, the other
parts that it needs (`core.py`), so that a part can be read, and tested, with what it needs alone. Runs in the driver
and in every worker; the tables are guarded by `lock`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from sundog.config import Config
from sundog.events import NoRing, Ring
from sundog.ids import IdMaker
from sundog.net.packets import Connection
from sundog.owner import context
from sundog.owner.agenda import Agenda
from sundog.owner.deliveries import Deliveries
from sundog.owner.objects import Objects
from sundog.owner.pauses import KnownPauses
from sundog.owner.reactor import Reactor
from sundog.owner.unread import UnreadErrors
from sundog.store.segments import Segments

if TYPE_CHECKING:
    from sundog.owner.stacks import CallOf


class Basics:
    """What all parts of one owner share."""

    node: Connection  # set by `begin`

    def __init__(
        self,
        segments: Segments,
        ops: deque[bytes | tuple[bytes, ...]],
        ring: Ring | NoRing,
        config: Config,
    ) -> None:
        self.me = b""
        self.ids = IdMaker(b"")
        self.config = config
        self.segments = segments
        self.ring = ring
        self.lock = threading.RLock()
        self.dropped_generators: deque[bytes] = deque()
        self.closed: BaseException | None = None
        self.notes_parents = False  # in a worker: each task records which task or call submitted it
        # Set by a worker: the calls that run at the same time, with their start times (only if there are
        # several); what to do before and after the worker blocks in a get or wait.
        self.running_calls: Callable[[], dict[bytes, float]] = dict
        self.call_of: CallOf = lambda _frame: None  # the call that this frame of the worker runs
        self.before_block: Callable[[], None] | None = None
        self.after_block: Callable[[], None] | None = None
        # Set by a worker that can run a missing task inside the waiting one. Given the missing objects, the
        # function returns whether all of them are ready afterwards.
        self.run_here: Callable[[list[bytes]], bool] | None = None
        self.actor_here: Callable[[], object] | None = (
            None  # in a worker: its actor, None before there is one
        )
        self.reactor = Reactor(
            self.lock,
            self.after_round,
            self.tick,
            config.spin_us / 1e6,
            max(0.005, config.idle_lease_ms / 1e3),
        )
        self.deliveries = Deliveries()
        self.reactor.each_look = self.deliveries.retry
        self.pauses = KnownPauses()
        self.agenda = Agenda(self.reactor, self.pauses)
        self._make_objects(ops)

    def begin(self, me: bytes, node: Connection) -> None:
        """Be the basics of this process from now on. What was built before may have been built before a fork."""
        self.me = self.objects.me = self.objects.refs.me = me
        self.ids.begin(me, int.from_bytes(context.facts.job_id, "little"))
        self.segments.begin(me)
        self.node = node
        self.reactor.open()

    def _make_objects(self, ops: deque[bytes | tuple[bytes, ...]]) -> None:
        config = self.config
        self.unread = UnreadErrors(not config.ignore_unhandled_errors, self._deliver_if_open)
        self.objects = objects = Objects(
            self.me,
            self.ids,
            self.lock,
            ops,
            self.segments,
            self.reactor,
            self.ring,
            self.unread,
            inline_max=config.inline_max_bytes,
            uncounted_allowed=bool(config.allow_out_of_band_object_ref_serialization),
        )
        # Aliases of tables that are read for every task: one attribute access less.
        self.ops = ops
        self.refs = objects.refs
        self.ready = objects.ready
        self.table = objects.table
        self.waiters = objects.waiters
        self.dependents = objects.dependents
        self.freed_early = objects.freed_early
        self.inline_max = objects.inline_max
        self.nested = objects.nested
        self.reactor.watchful = lambda: bool(self.ready or self.refs.owned or self.refs.borrowed)
        self.reactor.awaited = lambda: bool(self.waiters or self.dependents)

    def _deliver_if_open(self, call: Callable[[bytes], None], meta: bytes) -> None:
        if self.closed is None:
            self.deliveries.bring(call, meta)

    # ------------------------------------------------------------------ rounds of the reactor (locked)
    def after_round(self) -> None:
        """What follows each round of the reactor; the owner adds what its parts do."""

    def tick(self) -> None:
        """What the reactor does about every `idle_lease_ms` while it ticks; likewise."""

    # ------------------------------------------------------------------ this process
    def job_id(self) -> bytes:
        """The job that this process works for."""
        return context.facts.job_id

    def check_open(self) -> None:
        """Raises what ended this session, if it has ended."""
        if self.closed is not None:
            raise self.closed

    def wall_s(self) -> float:
        """Seconds on the wall clock, for what people read; bounds on time are measured on the monotonic one."""
        return time.time()
