"""The owner: what a process knows of the refs it made and the refs it holds.

Its constructor builds the parts on the basics (`basics.py`: lock, objects, reactor, …), in this order. A part is
given those before it that it needs; those after it, which it knows by an interface (`interfaces.py`), in `_connect`::

    control     requests to the node and its messages                          control.py
    room        room in the object store                                       room.py
    peers       values and reference counts of other processes' objects        peers.py
    getting     get, wait, and whatever else blocks                            getting.py, futures.py
    replies     what workers answer; retries; deaths of workers                replies.py
    memory      tasks whose worker was ended for memory                        memory.py
    streams     generators                                                     streams.py, generators.py
    lineage     lost results made again by running their tasks                 lineage.py, losses.py
    timeouts    tasks that begin too late or run too long                      timeouts.py
    cancels     tasks and calls that are cancelled                             cancels.py
    frees       objects that the program frees itself                          frees.py
    arguments   packed, awaited                                                arguments.py
    dispatch    shapes of demand, leases, stealing                             dispatch.py, lanes.py
    tasks       functions, submitting                                          tasks.py
    actors      handles, calls, restarts                                       actors.py, lanes.py
    long_waits  gets that last, and deadlocks                                  long_waits.py

One lock (`lock`, an RLock, so that a signal that comes can ask whether this thread holds it) guards all of it.
Nothing of the user's is pickled, unpickled or called under it. Runs in the driver and in every worker;
any thread may call the public verbs.
"""

from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING

from sundog.config import Config
from sundog.events import NoRing, Ring
from sundog.ids import PROCESS_BYTES
from sundog.net.packets import Connection
from sundog.owner import losses
from sundog.owner.actors import ActorCalls
from sundog.owner.arguments import Arguments
from sundog.owner.basics import Basics
from sundog.owner.cancels import Cancels
from sundog.owner.control import Control
from sundog.owner.dispatch import Dispatch
from sundog.owner.frees import Frees
from sundog.owner.getting import Getting
from sundog.owner.lineage import Recovery
from sundog.owner.long_waits import LongWaits
from sundog.owner.memory import MemoryLosses
from sundog.owner.peers import Peers
from sundog.owner.replies import Replies
from sundog.owner.room import Room
from sundog.owner.rows import Task
from sundog.owner.streams import Streams
from sundog.owner.tasks import Tasks
from sundog.owner.timeouts import Timeouts
from sundog.owner.unwanted import UnwantedResults
from sundog.store.segments import Segments

if TYPE_CHECKING:
    import asyncio

    from sundog.owner.awaits import Awaits
    from sundog.owner.futures import ObjectFuture
    from sundog.wire.dicts import SessionFacts


class Owner(Basics):
    """The owner of one process. Made by `sundog.owner.assemble`, which gives it its place in the session."""

    def __init__(
        self,
        segments: Segments,
        ops: deque[bytes | tuple[bytes, ...]],
        ring: Ring | NoRing,
        config: Config,
        session: SessionFacts,
    ) -> None:
        super().__init__(segments, ops, ring, config)
        self.awaits: Awaits | None = None  # made at the first `await ref`
        self.control = Control(self, session)
        self.room = Room(self, self.control, session["store_bytes"])
        self.peers = Peers(self, self.control)
        self.getting = Getting(self, self.peers)
        self.replies = Replies(self, self.control)
        self.memory = MemoryLosses(self, self.control, self.replies)
        self.streams = Streams(self, self.peers, self.getting)
        self.lineage = Recovery(self, self.peers, self.getting, self.replies, self.streams)
        self.timeouts = Timeouts(self, self.control, self.replies)
        self.cancels = Cancels(self, self.control, self.peers, self.getting, self.replies, self.lineage)
        self.unwanted = UnwantedResults(self, self.peers)
        self.frees = Frees(self, self.peers, self.lineage)
        self.arguments = Arguments(self, self.replies)
        self.dispatch = Dispatch(self, self.control, self.replies, self.cancels)
        self.tasks = Tasks(self, self.dispatch, self.arguments, self.streams, self.timeouts)
        self.actors = ActorCalls(
            self, self.control, self.peers, self.replies, self.timeouts, self.arguments, self.dispatch
        )
        self.long_waits = LongWaits(self, self.control, self.replies, self.dispatch, self.actors)
        self._connect()

    def begin(self, me: bytes, node: Connection) -> None:
        """Be the owner of this process from now on, and hear the node."""
        super().begin(me, node)
        self.actors.gauge.pid = os.getpid()
        self.reactor.add(node.fileno(), self.control.read)

    def _connect(self) -> None:
        """Give each part those that were built after it (`interfaces.py`)."""
        actors, dispatch, lineage, cancels = self.actors, self.dispatch, self.lineage, self.cancels
        self.objects.around = _Around(self)
        self.control.getting = self.getting
        self.peers.actors = actors
        self.getting.lineage, self.getting.long_waits = lineage, self.long_waits
        replies = self.replies
        replies.streams, replies.lineage, replies.memory = self.streams, lineage, self.memory
        replies.dispatch, replies.actors = dispatch, actors
        replies.cancels, replies.timeouts = cancels, self.timeouts
        self.memory.dispatch = dispatch
        self.streams.lineage, self.streams.cancels = lineage, cancels
        lineage.arguments, lineage.dispatch, lineage.actors = self.arguments, dispatch, actors
        self.timeouts.actors = dispatch.actors = actors
        cancels.dispatch, cancels.actors = dispatch, actors
        self.frees.dispatch, self.frees.actors = dispatch, actors
        self.arguments.dispatch, self.arguments.actors = dispatch, actors
        self.reactor.patience_s = self.long_waits.patience_s

    # ------------------------------------------------------------------ rounds of the reactor (locked)
    def after_round(self) -> None:
        """Count refs, drop generators that were dropped, send what can be sent."""
        if self.ops:
            self.objects.drain()
        while self.dropped_generators:
            self.streams.drop(self.dropped_generators.popleft())
        self.dispatch.dispatch_all()
        self.actors.dispatch_all()

    def tick(self) -> None:
        """Give back leases that are not used."""
        self.dispatch.release_idle()

    # ------------------------------------------------------------------ for refs (`refs.Hooks`), any thread
    def pin_forever(self, oid: bytes) -> None:
        """A ref was pickled by hand: keep its object until shutdown.

        Raises:
            OufOfBandObjectRefSerializationException: the settings do not allow it.
        """
        self.objects.pin_forever(oid)

    def future_of(self, oid: bytes) -> ObjectFuture:
        """A `concurrent.futures.Future` for an object."""
        from sundog.owner.futures import Futures  # only programs that use futures load this

        return Futures(self, self.getting, self.lineage).of(oid)

    def await_of(self, oid: bytes) -> asyncio.Future[object]:
        """A future of the running loop of asyncio for an object."""
        if self.awaits is None:
            from sundog.owner.awaits import Awaits  # only programs that use asyncio load this
            from sundog.owner.futures import Futures

            self.awaits = Awaits(self, Futures(self, self.getting, self.lineage))
        return self.awaits.of(oid)


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
        self._owner.unwanted.freed(oid)

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
        owner = self._owner
        cause = owner.peers.dead.get(oid[:PROCESS_BYTES])
        if cause is not None:
            return losses.owner_died(owner.control, oid, cause)
        return losses.unknown(owner.me, oid)

    def arguments_ready(self, task: Task) -> None:
        self._owner.arguments.enqueue(task)
