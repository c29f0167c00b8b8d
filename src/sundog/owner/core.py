"""The owner: what a process knows of the refs it made and the refs it holds.

Its constructor builds the parts, in the order in which they need each other::

    reactor     which thread reads the sockets                                        reactor.py
    deliveries  what must not run under the lock                               deliveries.py
    objects     values, waiters, references, frees                             objects.py, nested.py, unread.py
    control     requests to the node and its messages                          control.py
    room        room in the object store                                       room.py
    agenda      what is done later: delayed attempts, deadlines                agenda.py, timeouts.py
    peers       values and reference counts of other processes' objects        peers.py
    getting     get, wait, and whatever else blocks                            getting.py, futures.py
    replies     what workers answer; retries; deaths of workers                replies.py
    streams     generators                                                     streams.py
    lineage     lost results made again by running their tasks                 lineage.py
    arguments   packed, awaited                                                arguments.py
    dispatch    shapes of demand, leases, stealing                             dispatch.py, lanes.py
    tasks       functions, submitting                                          tasks.py
    actors      handles, calls, restarts                                       actors.py, lanes.py
    waits       gets that last, and deadlocks                                  waits.py

One lock (`lock`, an RLock, so that a signal that comes can ask whether this thread holds it) guards all of it.
Nothing of the user's is pickled, unpickled or called under it. Runs in the driver and in every worker;
any thread may call the public verbs.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sundog.config import Config
from sundog.events import NoRing, Ring
from sundog.ids import IdMaker
from sundog.net.packets import Connection
from sundog.owner import context, losses
from sundog.owner.actors import ActorCalls
from sundog.owner.agenda import Agenda
from sundog.owner.arguments import Arguments
from sundog.owner.cancels import Cancels
from sundog.owner.control import Control
from sundog.owner.deliveries import Deliveries
from sundog.owner.dispatch import Dispatch
from sundog.owner.frees import Frees
from sundog.owner.getting import Getting
from sundog.owner.lineage import Recovery
from sundog.owner.long_waits import LongWaits
from sundog.owner.memory import MemoryLosses
from sundog.owner.objects import Objects
from sundog.owner.pauses import Pauses
from sundog.owner.peers import Peers
from sundog.owner.reactor import Reactor
from sundog.owner.replies import Replies
from sundog.owner.room import Room
from sundog.owner.rows import Task
from sundog.owner.streams import Streams
from sundog.owner.tasks import Tasks
from sundog.owner.timeouts import Timeouts
from sundog.owner.unread import UnreadErrors
from sundog.store.segments import Segments

if TYPE_CHECKING:
    import asyncio

    from sundog.owner.awaits import Awaits


class Owner:
    """The owner of one process. Made by `sundog.owner.assemble`, which gives it its place in the session."""

    def __init__(
        self,
        me: bytes,
        node: Connection,
        segments: Segments,
        ops: deque[bytes | tuple[bytes, ...]],
        ring: Ring | NoRing,
        config: Config,
        session: dict[str, Any],
    ) -> None:
        self.me = me
        self.ids = IdMaker(me, int.from_bytes(context.facts.job_id, "little"))
        self.config = config
        self.node = node
        self.segments = segments
        self.ring = ring
        self.lock = threading.RLock()
        self.dropped_generators: deque[bytes] = deque()
        self.closed: BaseException | None = None
        self.notes_parents = False  # in a worker: tasks note which task or call has submitted them
        # A worker plugs these in: which calls it runs beside each other, with their starts (several at a time only);
        # what to do before and after it blocks in a get or wait.
        self.running_calls: Callable[[], dict[bytes, float]] = dict
        self.call_of: Callable[[Any], Any] = lambda _frame: None  # the call that a frame of the worker's runs
        self.before_block: Callable[[], None] | None = None
        self.after_block: Callable[[], None] | None = None
        # What runs here may run what it waits for: given the missing objects, it says whether all are ready then.
        self.run_here: Callable[[list[bytes]], bool] | None = None
        self.reactor = Reactor(
            self.lock,
            self._after_round,
            self._tick,
            config.spin_us / 1e6,
            max(0.005, config.idle_lease_ms / 1e3),
        )
        self.deliveries = Deliveries()
        self.awaits: Awaits | None = None  # from the first `await ref` on
        self._make_objects(ops)
        self._make_parts(session)

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
        objects.around = _Around(self)
        # The same tables, one look-up nearer: they are read for every task.
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

    def _make_parts(self, session: dict[str, Any]) -> None:
        self.control = Control(self, session)
        self.room = Room(self, session["store_bytes"])
        self.pauses = Pauses()
        self.agenda = Agenda(self.reactor, self.pauses)
        self.peers = Peers(self)
        self.getting = Getting(self)
        self.replies = Replies(self)
        self.memory = MemoryLosses(self)
        self.streams = Streams(self)
        self.lineage = Recovery(self)
        self.timeouts = Timeouts(self)
        self.cancels = Cancels(self)
        self.frees = Frees(self)
        self.arguments = Arguments(self)
        self.dispatch = Dispatch(self)
        self.tasks = Tasks(self, self.dispatch, self.arguments)
        self.actors = ActorCalls(self)
        self.long_waits = LongWaits(self)
        self.reactor.patience_s = self.long_waits.patience_s

    def _deliver_if_open(self, call: Callable[[bytes], None], meta: bytes) -> None:
        if self.closed is None:
            self.deliveries.bring(call, meta)

    # ------------------------------------------------------------------ rounds of the reactor (locked)
    def _after_round(self) -> None:
        if self.ops:
            self.objects.drain()
        while self.dropped_generators:
            self.streams.drop(self.dropped_generators.popleft())
        self.dispatch.dispatch_all()
        self.actors.dispatch_all()

    def _tick(self) -> None:
        self.dispatch.release_idle()

    # ------------------------------------------------------------------ for refs (`refs.Hooks`), any thread
    def pin_forever(self, oid: bytes) -> None:
        """A ref was pickled by hand: its object stays until shutdown.

        Raises:
            OufOfBandObjectRefSerializationException: the settings do not allow it.
        """
        self.objects.pin_forever(oid)

    def future_of(self, oid: bytes) -> Any:
        """A `concurrent.futures.Future` for an object."""
        from sundog.owner.futures import Futures  # for programs that ask for one

        return Futures(self).of(oid)

    def await_of(self, oid: bytes) -> asyncio.Future[Any]:
        """A future of the running loop of asyncio for an object."""
        if self.awaits is None:
            from sundog.owner.awaits import Awaits  # for programs with asyncio

            self.awaits = Awaits(self)
        return self.awaits.of(oid)

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


class _Around:
    """The parts of an owner as its objects see them (`objects.Around`)."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner

    def send_word(self, process: bytes, word: tuple[object, ...]) -> None:
        self._owner.peers.send(process, word)

    def ask_owner(self, oid: bytes) -> None:
        self._owner.peers.want(oid)

    def forget_borrowed(self, oid: bytes) -> None:
        self._owner.peers.forget(oid)

    def nobody_asks(self, oid: bytes) -> None:
        self._owner.peers.nobody_asks(oid)

    def not_made(self, oid: bytes) -> None:
        self._owner.actors.scope_ended(oid)

    def lineage_freed(self, oid: bytes) -> None:
        self._owner.lineage.freed(oid)

    def comes(self, oid: bytes) -> bool:
        owner = self._owner
        if owner.streams.expects(oid) or owner.actors.is_scope(oid):
            return True
        if owner.lineage.can_recover(oid):
            owner.lineage.recover(oid)
            return True
        return False

    def unknown(self, oid: bytes) -> BaseException:
        return losses.unknown(self._owner, oid)

    def arguments_ready(self, task: Task) -> None:
        self._owner.arguments.enqueue(task)
