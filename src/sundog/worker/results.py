"""Answers of more than one result: several, all items of a generator, or a stream of them.

Owns what an item is on its way out, one at a time: a generator whose items together are larger than memory ends all
the same. One that raises has made what it yielded before::

    num_returns=3          yields a, b, raises     a, b, the error
    num_returns="dynamic"  yields a, b, raises     refs to a, b and the error
    "streaming"            yields a, b, raises     a and b were sent; the error is one more item

Refuses to run anything else of the user's. Runs in the thread that ran the task.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from sundog.exception_transport import without_frames
from sundog.serialize.pack import NONE
from sundog.wire import lanes as wire
from sundog.worker.answers import AnswerLane
from sundog.worker.exits import CallCancelled
from sundog.worker.gates import Gate
from sundog.worker.unwanted import UnwantedHere

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sundog.wire.lanes import Extra
    from sundog.worker.executor import Executor

_time = time.time
_FLUSH_S = 1e-3


class Partial(Exception):
    """A generator raised after it had made some of its results."""

    def __init__(self, error: BaseException, made: list[wire.WireValue]) -> None:
        super().__init__(error, made)
        self.error = error
        self.made = made


class Results:
    """Packs the results of one worker's tasks and calls, except the single result of the common case."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.shm_root = executor.shm_root
        self.items_max = executor.owner.config.max_num_generator_returns
        self.unwanted = UnwantedHere(executor.owner)
        self.streamed: dict[bytes, int] = {}  # running streams -> bytes of their items so far

    def answer(
        self,
        lane: AnswerLane,
        task_id: bytes,
        name: str,
        returns: int | str,
        result: object,
        received: list[bytes],
        start: float,
        extra: Extra | None,
    ) -> int:
        """Queue the reply of a task that has none, several, or a generator of results.

        Returns:
            How many bytes of them are in replies.
        """
        executor = self.executor
        if returns == "streaming":
            count = self._stream(lane, task_id, name, _items(name, returns, result), extra)
            del result
            if executor.attention:
                executor.look_at(task_id)
            payload: object = (count, executor.held(lane, received))
            lane.reply((task_id, wire.R_END, payload, _time() - start), 64, self.shm_root)
            return self.streamed.pop(task_id, 0)
        if not isinstance(returns, int):
            values = self._pack_each(lane, task_id, name, _items(name, returns, result), None)
            kind = wire.R_DYNAMIC
        else:
            try:
                values = self.split(lane, task_id, name, returns, result)
            finally:
                self.unwanted.forget(task_id)
            kind = wire.R_VALUES
        del result
        if executor.attention:
            executor.look_at(task_id)
        payload = (values, executor.held(lane, received))
        size = sum(len(value[1]) for value in values)
        executor.unsent.sent()
        lane.reply((task_id, kind, payload, _time() - start), size, self.shm_root)
        return size

    def split(
        self, lane: AnswerLane, task_id: bytes, name: str, returns: int, result: Any
    ) -> list[wire.WireValue]:
        """Each of a task's `returns` results, packed.

        Raises:
            Partial: a generator raised, or ended early; what it yielded before is good.
            TypeError, ValueError: the result cannot be split like that.
        """
        if returns == 0:
            return []
        if returns == 1:
            return [self._pack(lane, None, name, result, 1)]
        if hasattr(result, "send"):  # a generator may have more items, which are not read here
            return self._pack_each(lane, task_id, name, result, returns)
        try:
            results = list(result)
        except TypeError:
            kind = type(result).__name__
            text = f"{name}() has num_returns={returns} but returned {kind}, which is not iterable."
            raise without_frames(TypeError(text)) from None
        if len(results) != returns:
            text = f"{name}() has num_returns={returns} but returned {len(results)} values."
            raise without_frames(ValueError(text))
        return [self._pack(lane, task_id, name, each, index) for index, each in enumerate(results, 1)]

    def only_item(self, generator: Iterable[object], name: str) -> object:
        """The first item of a generator that was called with num_returns=1."""
        for each in generator:
            return each
        raise without_frames(ValueError(f"{name}() has num_returns=1 but yielded 0 values."))

    def _pack(
        self, lane: AnswerLane, task_id: bytes | None, name: str, value: object, index: int
    ) -> wire.WireValue:
        """One of several results; one that the owner of `task_id` will throw away is packed and not stored."""
        meta, buffers, inner = self.executor.pack_result(value, name)
        if (
            buffers
            and task_id is not None
            and self.unwanted.is_unwanted(task_id, lane.owner_id, index, buffers)
        ):
            return (wire.OK, NONE, None, None)
        return self.executor.value_of(lane, meta, buffers, inner, index)

    def _pack_each(
        self, lane: AnswerLane, task_id: bytes, name: str, generator: Iterator[object], count: int | None
    ) -> list[wire.WireValue]:
        """All items, or the first `count` of them."""
        made: list[wire.WireValue] = []
        asker = None if count is None else task_id  # the items of a dynamic generator are all held
        try:
            while count is None or len(made) < count:
                try:
                    each = next(generator)
                except StopIteration:
                    break
                self._check_count(name, len(made) + 1)
                made.append(self._pack(lane, asker, name, each, len(made) + 1))
                each = None
            if count is not None and len(made) < count:
                text = f"{name}() has num_returns={count} but yielded {len(made)} values."
                raise without_frames(ValueError(text))
        except Exception as error:
            raise Partial(error, made) from None
        finally:
            _close(generator)
        return made

    def _check_count(self, name: str, count: int) -> None:
        if count > self.items_max:
            raise ValueError(
                f"{name}() yielded more than {self.items_max} items, the limit of the setting "
                "max_num_generator_returns."
            )

    # ------------------------------------------------------------------ streams
    def _stream(
        self, lane: AnswerLane, task_id: bytes, name: str, result: Iterator[object], extra: Extra | None
    ) -> int:
        executor = self.executor
        per_yield, limit = bounds_of(extra)
        turn = threading.Event()
        gate = executor.gates.open(task_id, lane.owner_id, limit, turn.set)
        index = 0
        try:
            while True:
                if gate is not None and not self._await_turn(lane, task_id, gate, per_yield, turn):
                    return index
                try:
                    each = next(result)
                except BaseException as error:
                    if gate is not None:
                        executor.gates.withdraw(gate, per_yield)
                    if type(error) is StopIteration:
                        return index
                    raise
                index += per_yield
                if per_yield == 1:
                    self.send_item(lane, task_id, index, each, name)
                elif not self.send_group(lane, task_id, index, each, name, per_yield):
                    return index
                each = None
        finally:
            executor.gates.close(task_id)
            _close(result)

    def _await_turn(
        self, lane: AnswerLane, task_id: bytes, gate: Gate, count: int, turn: threading.Event
    ) -> bool:
        """Wait until a stream may make its next items; False if its items are not needed any more."""
        executor = self.executor
        while not gate.abandoned and not executor.gates.admit(gate, count):
            lane.flush(self.shm_root)
            turn.wait(0.5)
            turn.clear()
            if task_id in executor.cancelled:
                raise KeyboardInterrupt if executor.actor_id is None else CallCancelled
        return not gate.abandoned

    def send_item(self, lane: AnswerLane, task_id: bytes, index: int, each: object, name: str) -> None:
        """Send one item of a generator."""
        executor = self.executor
        if index > self.items_max:
            self._check_count(name, index)
        meta, buffers, inner = executor.pack_result(each, name)
        self.streamed[task_id] = self.streamed.get(task_id, 0) + len(meta)
        value = executor.value_of(lane, meta, buffers, inner, index)
        executor.unsent.sent()
        lane.reply((task_id, wire.R_ITEM, (index, value), 0.0), len(value[1]), self.shm_root)
        now = _time()
        if now - lane.first_s > _FLUSH_S:
            lane.first_s = now
            lane.flush(self.shm_root)
        else:
            executor.item_waits()  # the next item may take long

    def send_group(
        self, lane: AnswerLane, task_id: bytes, last: int, each: object, name: str, count: int
    ) -> bool:
        """Send the objects of one yield, the last of them with the index `last`.

        An object that cannot be packed is an error, and so are those behind it, for each has its ref: then False.

        Raises:
            ValueError: it is not so many objects.
        """
        if not isinstance(each, (tuple, list)) or len(each) != count:
            text = f"{name}() has _num_objects_per_yield={count}, but yielded {_told(each)}."
            raise without_frames(ValueError(text))
        first = last - count + 1
        for index, part in enumerate(each, first):
            try:
                self.send_item(lane, task_id, index, part, name)
            except Exception as error:
                for failed in range(index, last + 1):
                    told = self.executor.error_of(error, name, task_id)
                    value = self.executor.packed_error(lane, told)
                    lane.reply((task_id, wire.R_ITEM, (failed, value), 0.0), len(value[1]), self.shm_root)
                return False
        return True


def bounds_of(extra: Extra | None) -> tuple[int, int]:
    """How many objects a generator yields at a time, and how many of them may be unread (0: no bound)."""
    if not extra:
        return 1, 0
    return extra.get(wire.EXTRA_PER_YIELD, 1), extra.get(wire.EXTRA_BACKPRESSURE, 0)


def _told(yielded: object) -> str:
    kind = type(yielded).__name__
    return (
        f"a {kind} of {len(yielded)}"
        if isinstance(yielded, (tuple, list))
        else f"a {kind}, not a tuple or list"
    )


def _items(name: str, returns: str, result: Any) -> Iterator[object]:
    """What a task returned whose results come one by one."""
    items: Iterator[object] = result
    if hasattr(result, "__next__"):
        return items
    if hasattr(result, "__aiter__"):
        raise ValueError(f"{name}() is an async generator: call it with num_returns='streaming'.")
    if not hasattr(result, "__iter__"):
        raise TypeError(
            f"{name}() has num_returns={returns!r} and must be a generator, but it returned {type(result).__name__}."
        )
    return iter(result)


def _close(generator: object) -> None:
    close = getattr(generator, "close", None)
    if close is not None:
        close()
