"""Generators: results that arrive one by one, each an object of its own.

Owns the stream of every generator task of this owner, under the owner's lock. An item that arrived and
was not asked for yet is held by the stream; the ref that `next()` returns takes that hold over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sundog.exceptions import StreamingGeneratorReplayInconsistentError
from sundog.ids import RESULT_SUFFIX, index_of, result_id, task_of
from sundog.owner.basics import Basics
from sundog.owner.getting import Getting
from sundog.owner.lanes import Lane
from sundog.owner.peers import Peers
from sundog.owner.rows import DONE, Task, Value, slim
from sundog.serialize.pack import pack
from sundog.wire.lanes import OK, WireValue
from sundog.wire.peers import Consumed

if TYPE_CHECKING:
    from sundog.owner.interfaces import Cancelling, Recovering

# the index of the object that stands for the end; no generator yields so many items
_COMPLETION = (1 << 32) - 1
_ALL = 1 << 62  # the producer takes all items for consumed
_NOTHING: Value = (OK, pack(None, 1 << 10)[0], None, None, None)


class Stream:
    """The items of one generator task so far."""

    __slots__ = (
        "arrived",
        "closed",
        "completion",
        "end",
        "error",
        "error_at",
        "given",
        "hurried",
        "task",
        "wakers",
    )

    def __init__(self, task: Task) -> None:
        self.task = task
        self.arrived = 0  # items received, without gaps
        self.given = 0  # items handed to the consumer
        self.end: int | None = None  # number of items, once known
        self.error_at: int | None = None
        # an error that ended the stream from outside; an error of the generator itself is an item
        self.error: Value | None = None
        self.closed = False
        self.completion = False  # the user has a ref to the end of the stream
        self.hurried = False  # the producer no longer waits for the consumer
        self.wakers: list[Callable[[], None]] = []


class Streams:
    """All generators of one owner."""

    lineage: Recovering  # set by the owner, which builds it later
    cancels: Cancelling

    def __init__(self, basics: Basics, peers: Peers, getting: Getting) -> None:
        self.basics = basics
        self.peers = peers
        self.getting = getting
        self.streams: dict[bytes, Stream] = {}

    def open(self, task: Task) -> None:
        """Begin to keep the items of a task just submitted."""
        with self.basics.lock:
            if task.id not in self.streams:
                self.streams[task.id] = Stream(task)
            if task.state == DONE and self.streams[task.id].end is None:
                self.streams[task.id].end = 0

    def of(self, task: Task) -> Stream:
        """The stream of a task (a worker may answer before `open` was called)."""
        stream = self.streams.get(task.id)
        if stream is None:
            stream = self.streams[task.id] = Stream(task)
        return stream

    def expects(self, oid: bytes) -> bool:
        """Whether an object may still arrive as an item."""
        stream = self.streams.get(task_of(oid))
        return stream is not None and stream.end is None and index_of(oid) > stream.arrived

    # ------------------------------------------------------------------ from the worker (locked)
    def item(self, task: Task, index: int, value: WireValue, lane: Lane) -> None:
        """One item arrived. After a retry the first ones arrive again and are dropped."""
        basics = self.basics
        if task.rebuilding is not None:
            self.lineage.item(task, index, value, lane)
            return
        stream = self.of(task)
        if value[3]:
            basics.refs.accept(lane.worker, value[3])
        stored: Value = (*value, lane if value[2] else None)
        if stream.closed or index <= stream.arrived:
            if not self.lineage.replaced(task, result_id(task.id, index), stored):
                basics.objects.discard(stored)
            basics.objects.carry_out()
            if index > stream.arrived:
                stream.arrived = stream.given = index
            self.tell_consumed(task)
            return
        stream.arrived = index
        oid = result_id(task.id, index)
        basics.refs.hold_new(oid)
        if value[2] is not None:
            task.lossy = task.lossy or set()
            task.lossy.add(oid)
        basics.objects.store(oid, stored)
        self._wake(stream)

    def ended(self, task: Task, count: int) -> None:
        """The generator returned after `count` items."""
        stream = self.of(task)
        if count < stream.arrived and not stream.closed:
            error = StreamingGeneratorReplayInconsistentError(
                f"{task.fn.name}() (task {task.id.hex()}) was run again and ended after {count} items, but an earlier "
                f"attempt had yielded {stream.arrived} already. A generator that may be retried must yield the same "
                "items each time; otherwise give it max_retries=0.",
                task_id=task.id.hex(),
                attempt=task.attempt + 1,
                yielded=count,
                expected=stream.arrived,
            )
            self.failed(task, self.basics.objects.error_value(error))
            return
        stream.end = stream.arrived
        self._complete(stream)
        self._wake(stream)
        self._maybe_forget(stream)
        self.lineage.resume(task)

    def failed(self, task: Task, value: Value) -> None:
        """The generator raised, or was lost: one more item, which is the error."""
        stream = self.of(task)
        if stream.end is not None:
            # the consumer closed the stream, and this is the end of the cancelled task
            self._maybe_forget(stream)
            return
        if not stream.closed:
            stream.arrived += 1
            oid = result_id(task.id, stream.arrived)
            self.basics.refs.hold_new(oid)
            self.basics.objects.store(oid, value)
            stream.error_at = stream.arrived
            if task.cancelled and not value[3]:  # refs inside the value would be counted for the item alone
                stream.error = value
        stream.end = stream.arrived
        self._complete(stream)
        self._wake(stream)
        self._maybe_forget(stream)

    def dynamic(self, task: Task, values: list[WireValue], lane: Lane) -> None:
        """All items of a num_returns="dynamic" task: the one result is a generator over refs to them.

        The refs inside of them were accepted before.
        """
        from sundog.owner.dynamic_items import DynamicObjectRefGenerator
        from sundog.refs import ObjectRef

        basics = self.basics
        oids = []
        for index, value in enumerate(values, 2):
            oid = result_id(task.id, index)
            oids.append(oid)
            basics.refs.hold_new(oid)
            basics.ready[oid] = slim((*value, lane if value[2] else None))
        # The holds above belong to the container from now on; the refs built here are only pickled.
        refs: list[ObjectRef[object]] = [ObjectRef(oid, None) for oid in oids]
        for oid in oids:
            basics.refs.hold(oid)
        meta, _, inner = pack(DynamicObjectRefGenerator(refs), 1 << 62)
        del refs
        basics.objects.store(task.id + RESULT_SUFFIX, (OK, meta, None, inner, None))
        basics.objects.carry_out()

    def _wake(self, stream: Stream) -> None:
        wakers, stream.wakers = stream.wakers, []
        for waker in wakers:
            waker()

    # ------------------------------------------------------------------ from the consumer (locked)
    def take(self, task_id: bytes) -> bytes | bool | None:
        """The id of the next item, whose hold passes to the caller; None if not there yet, False at the end."""
        stream = self.streams.get(task_id)
        if stream is None:
            return False
        if stream.given < stream.arrived:
            stream.given += 1
            self.tell_consumed(stream.task)
            return result_id(task_id, stream.given)
        if stream.end is not None:
            return False
        return None

    def tell_consumed(self, task: Task) -> None:
        """Let a producer that waits for its consumer go on.

        Told again to each new attempt, and to an actor that comes up: its count starts from 0.
        """
        stream = self.streams.get(task.id)
        if stream is None or task.fn.backpressure <= 0 or task.lane is None:
            return
        if task.state == DONE and not task.fn.counted:
            return
        worker = task.lane.worker
        count = _ALL if stream.hurried else stream.given
        if worker and count:
            self.peers.send(worker, Consumed(task.id, count))

    def hurry(self, task: Task) -> None:
        """Let a producer run on to its end: its consumer waits for a lost item, which is made again only after that."""
        stream = self.streams.get(task.id)
        if stream is not None and task.fn.backpressure > 0 and not stream.hurried:
            stream.hurried = True
            self.tell_consumed(task)

    def completion(self, task_id: bytes) -> bytes:
        """The object that becomes ready when the generator has ended, with one more hold: None, or the error
        that ended it.
        """
        basics = self.basics
        oid = result_id(task_id, _COMPLETION)
        basics.refs.hold_new(oid)
        basics.freed_early.discard(oid)
        stream = self.streams.get(task_id)
        if oid not in basics.ready:
            if stream is None or stream.end is not None:
                basics.ready[oid] = slim(_NOTHING if stream is None else stream.error or _NOTHING)
            else:
                stream.completion = True
        return oid

    def _complete(self, stream: Stream) -> None:
        if stream.completion:
            stream.completion = False
            self.basics.objects.store(result_id(stream.task.id, _COMPLETION), stream.error or _NOTHING)

    def peek_ready(self, task_id: bytes) -> bool:
        """Whether `next()` would not block."""
        stream = self.streams.get(task_id)
        return stream is None or stream.given < stream.arrived or stream.end is not None

    def is_finished(self, task_id: bytes) -> bool:
        """Whether the generator has ended and every item was handed out."""
        stream = self.streams.get(task_id)
        return stream is None or (stream.end is not None and stream.given >= stream.end)

    def close(self, task_id: bytes) -> None:
        """The consumer wants no more: drop what waits and cancel the task."""
        stream = self._let_go(task_id)
        if stream is None:
            return
        if stream.end is None:
            stream.end = stream.arrived
            self._complete(stream)
            self.give_up(stream.task)
        self._wake(stream)
        self._maybe_forget(stream)

    def drop(self, task_id: bytes) -> None:
        """The generator object is gone, so its items will not be read. Its task continues, and waits for no
        consumer.
        """
        stream = self._let_go(task_id)
        if stream is None:
            return
        stream.given = stream.arrived
        self.tell_consumed(stream.task)
        self._maybe_forget(stream)

    def _let_go(self, task_id: bytes) -> Stream | None:
        """Drop the items that wait for a consumer; None if that was done before, or the stream is unknown."""
        stream = self.streams.get(task_id)
        if stream is None or stream.closed:
            return None
        stream.closed = True
        for index in range(stream.given + 1, stream.arrived + 1):
            self.basics.refs.drop(result_id(task_id, index))
        self.basics.objects.carry_out()
        return stream

    def give_up(self, task: Task) -> None:
        """Cancel a generator because its items are not read: not its fault, so what it yielded can be
        rebuilt.
        """
        if task.state != DONE and not task.cancelled:
            task.retries_at_close = task.retries
        self.cancels.cancel_task(task, force=False, recursive=True, quiet=True)

    def _maybe_forget(self, stream: Stream) -> None:
        if stream.closed and stream.task.state == DONE:
            self.streams.pop(stream.task.id, None)
