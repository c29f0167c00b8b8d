"""Lanes: the socket pairs on which this process sends tasks or calls to a worker, and hears its replies.

::

    Lane              socket, tasks in flight, freed segments; send, read, take back, close
    ├── LeasedLane    to a worker that was leased for a shape of demand
    └── ActorLane     to an actor, through all its lives

Owns what is on its way to a worker. Refuses to decide what is sent when: `dispatch.py` does for leases, `actors.py` for
calls. Runs under the owner's lock. The owner keeps a duplicate of the worker's end (`peer`), so that packets which the
worker has not read can be taken back; layout of the packets: `wire/lanes.py`.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterable
from pickle import dumps
from typing import TYPE_CHECKING, Self

from sundog.ids import number_of
from sundog.net import packets
from sundog.net import sockets as socket
from sundog.owner.rows import DONE, QUEUED, WAITING, Fn, Shape, Task
from sundog.wire.lanes import FnWire, Item, Packet, ReplyBatch

if TYPE_CHECKING:
    from sundog.wire.dicts import LeaseSetup
    from sundog.wire.peers import ToPeer


class Lane:
    """Our end of the socket pair to one worker, and what is on its way there."""

    __slots__ = (
        "blocked",
        "freed",
        "idle_since_s",
        "inflight",
        "last_s",
        "leaving",
        "load_s",
        "peer",
        "pid",
        "reclaim",
        "retired",
        "setup",
        "sock",
        "untold",
        "worker",
    )
    out_of_order = False  # whether tasks may run in another order than the order of sending

    def __init__(
        self, worker: bytes, pid: int, sock: socket.socket | None, peer: socket.socket | None
    ) -> None:
        self.worker = worker  # empty while the actor has no process
        self.pid = pid
        self.sock = sock
        # a duplicate of the worker's end of the socket pair: with it, unread packets can be taken back
        self.peer = peer
        self.inflight: dict[bytes, Task] = {}
        self.load_s = 0.0
        self.freed: list[tuple[str, int]] = []  # segments that the worker made and that are free again
        # Sent with every packet until a packet is answered: the first packet may be taken back and the second
        # be read.
        self.setup: LeaseSetup | None = None
        # messages to send once the id of the process at the other end is known
        self.untold: list[ToPeer] = []
        self.blocked = False  # the worker waits in a get
        self.reclaim = False  # the node wants the lease back
        self.leaving = False  # the worker said that it will run no more tasks
        self.retired = False  # the worker is gone
        self.last_s = 0.0
        self.idle_since_s = 0.0

    # ------------------------------------------------------------------ sending and reading
    def send(self, fns: list[FnWire | None] | None, items: list[Item], shm_root: str) -> bool:
        """Send one packet, with what is freed and what the lease needs; False if the socket takes no more now.

        Raises:
            packets.NoRoom: the packet is large, and there is no room for it now; or the kernel has no memory for it.
        """
        freed, setup = self.freed, self.setup
        data = dumps((fns, items, freed, setup), 5)
        big = len(data) > packets.MESSAGE_MAX_BYTES
        if big:
            data = packets.encode((fns, items, freed, setup), shm_root)
        try:
            self.sock.send(data, socket.MSG_DONTWAIT)  # type: ignore[union-attr]
        except OSError as error:
            # The worker may also be dead: then the node's message about the death moves the tasks.
            if big:
                packets.discard(data)
            if error.errno in packets.PASSING:
                raise packets.not_now(error) from None
            return False
        if freed:
            self.freed = []
        return True

    def send_freed(self) -> None:
        """Tell an idle worker which of its segments it may use again; they would wait for its next task."""
        if self.sock is None:
            return
        try:
            self.sock.send(dumps((None, [], self.freed, None), 5), socket.MSG_DONTWAIT)
        except OSError:
            return  # the message goes with the next packet, or is dropped with the worker
        self.freed = []

    def reader(
        self,
        buffer: memoryview,
        handle: Callable[[Self, ReplyBatch], None],
        on_end: Callable[[], None] | None = None,
    ) -> Callable[[], None]:
        """What is called when the lane is readable; one packet a round, epoll says if there is more.

        Args:
            buffer: what packets are read into.
            handle: called with this lane and a packet of replies.
            on_end: called when the worker's end is closed; None where it is never noticed (a duplicate is held here).
        """
        sock, loads = self.sock, pickle.loads
        assert sock is not None

        def read() -> None:
            try:
                size = sock.recv_into(buffer, 0, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError:
                size = 0
            if size:
                handle(self, loads(buffer[:size]))
            elif on_end is not None:
                on_end()

        return read

    def close(self) -> None:
        """Close both ends that are held here."""
        if self.sock is not None:
            self.sock.close()
        self.close_peer()

    def close_peer(self) -> None:
        """Close the duplicate of the worker's end: nothing is taken back from here on."""
        if self.peer is not None:
            self.peer.close()
            self.peer = None

    # ------------------------------------------------------------------ taking back
    def unread(self, *, every: bool) -> list[Packet]:
        """Packets that the worker has not read, out of its socket: the next one, or `every` one."""
        found: list[Packet] = []
        while self.peer is not None:
            try:
                data = self.peer.recv(packets.RECV_BYTES, socket.MSG_DONTWAIT)
            except OSError:
                break
            if not data:
                break
            packet: Packet = packets.decode(data)
            self.freed.extend(packet[2])
            found.append(packet)
            if not every:
                break
        return found

    def take_back(self, late: bool = True) -> int:
        """Queue the tasks of unread packets again, first; how many there were.

        `late`: they should have been read by now, so tasks of their kind take longer than it seemed.
        """
        raise NotImplementedError

    def hand_back(self, task_ids: Iterable[bytes]) -> None:
        """The worker hands back tasks that it has not begun."""
        raise NotImplementedError

    def _pop(self, task_ids: Iterable[bytes]) -> list[Task]:
        inflight = self.inflight
        return [inflight.pop(each) for each in task_ids if each in inflight]


class OwnLane(Lane):
    """Stands for this process where a task runs in the process of its owner (`worker/inline.py`)."""

    __slots__ = ()

    def take_back(self, late: bool = True) -> int:
        """See `Lane.take_back`: what is here runs already."""
        return 0


class LeasedLane(Lane):
    """The lane to a worker that this process leases or leased: the lane is kept for the next lease of the
    worker.
    """

    __slots__ = ("_requeue", "known", "lease", "shape")

    def __init__(
        self,
        worker: bytes,
        pid: int,
        sock: socket.socket,
        peer: socket.socket | None,
        requeue: Callable[[LeasedLane | None, list[Task], bool], None],
    ) -> None:
        super().__init__(worker, pid, sock, peer)
        self.known: set[int] = set()  # functions that the worker has received
        self.shape: Shape | None = None
        self.lease = 0
        self._requeue = requeue

    def take_back(self, late: bool = True) -> int:
        """See `Lane.take_back`: of one packet, or of all while the worker is blocked."""
        found = self.unread(every=self.blocked)
        self.known.difference_update([fn[0] for packet in found for fn in packet[0] or () if fn is not None])
        back = self._pop(item[0] for packet in found for item in packet[1])
        self._requeue(self, back, late)
        return len(back)

    def hand_back(self, task_ids: Iterable[bytes]) -> None:
        """See `Lane.hand_back`."""
        back = self._pop(task_ids)
        self.known.difference_update([task.fn.number for task in back])
        self._requeue(self, [task for task in back if task.state != DONE], True)


class ActorLane(Lane):
    """The lane to one actor, with the calls that wait for it; each incarnation has a new socket pair."""

    __slots__ = (
        "_busy",
        "actor_id",
        "away",
        "by_group",
        "cause",
        "concurrent",
        "due_s",
        "fns",
        "incarnation",
        "keep",
        "max_pending",
        "name",
        "out_of_order",
        "owner",
        "queue",
        "state",
    )

    def __init__(self, actor_id: bytes, name: str, busy: set[ActorLane], owner: object = None) -> None:
        super().__init__(b"", 0, None, None)
        self.owner = owner  # the owner of these calls; compared, since a handle may outlive its session
        self.actor_id = actor_id
        self.name = name
        self.queue: deque[Task] = deque()
        self.state = "PENDING_CREATION"
        # the actor is dead or between two incarnations: calls need more than a place in the queue
        self.away = False
        self.incarnation = 0
        self.cause: object = None
        self.fns: dict[object, Fn] = {}
        self.max_pending = -1
        self.out_of_order = False  # a call does not wait for the arguments of earlier calls
        self.by_group = False  # ... but waits for the arguments of earlier calls of its concurrency group
        self.concurrent = False  # the actor runs several calls at a time
        self.due_s = 0.0  # when a small batch that waits for more calls is sent anyway
        self.keep: object = None  # a ref that keeps the actor alive while calls are in flight
        self._busy = busy  # the set of lanes that have something to send

    def requeue(self, tasks: Iterable[Task]) -> None:
        """Put calls back to the head of the queue, in order."""
        for task in reversed(list(tasks)):
            task.state = QUEUED
            self.queue.appendleft(task)
        self._busy.add(self)

    def take_unsent(self) -> list[Task]:
        """Take the calls without retries out of the queue that could have been sent: nothing held them up."""
        taken: list[Task] = []
        kept: list[Task] = []
        while self.queue:
            task = self.queue.popleft()
            if task.state == WAITING and not self.out_of_order:
                kept.append(task)
                break
            (taken if task.state == QUEUED and task.retries == 0 else kept).append(task)
        self.queue.extendleft(reversed(kept))
        return taken

    def put_back(self, task: Task) -> None:
        """Queue a call again at its old place: before later calls, and after calls that make its arguments."""
        number = number_of(task.id)
        later = (at for at, other in enumerate(self.queue) if number_of(other.id) > number)
        self.queue.insert(next(later, len(self.queue)), task)
        self._busy.add(self)

    def take_back(self, late: bool = True) -> int:
        """See `Lane.take_back`: of all packets. Only before the actor is up, for then `peer` is closed."""
        found = self.unread(every=True)
        back = self._pop(item[0] for packet in found for item in packet[1])
        if back:
            self.requeue(back)
        return len(back)

    def hand_back(self, task_ids: Iterable[bytes]) -> None:
        """See `Lane.hand_back`: an ending actor hands back calls that have not begun; the actor's death
        decides about them.
        """
        self.requeue([task for task in self._pop(task_ids) if task.state != DONE])
