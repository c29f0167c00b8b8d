"""`@serve.batch`: calls that come at the same time are handed to a function as one list.

::

    call(a) ─┐                     ┌─► result of a
    call(b) ─┼─► queue ─► func([a, b, c]) ─► [ra, rb, rc]
    call(c) ─┘  until it is full, or has waited for batch_wait_timeout_s

Owns the queues: one for each object (or function) and event loop. Runs in a replica's event loop.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from typing import Any

from sundog.serve.context import RequestContext, batch_context, request_context
from sundog.serve.exceptions import RayServeException


@dataclass
class _Item:
    args: tuple[object, ...]
    kwargs: dict[str, object]
    answer: asyncio.Future[object] | asyncio.Queue[object]  # a queue for generators
    request: RequestContext


_END = object()


class _BatchQueue:
    """The calls of one object that wait for their batch."""

    def __init__(self, function: Callable[..., Any], owner: object, rules: _Rules) -> None:
        self._function, self._owner, self._rules = function, owner, rules
        self._items: list[_Item] = []
        self._came = asyncio.Event()
        self._running: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None

    def put(self, item: _Item) -> None:
        """Add a call; the loop that makes batches runs while there are some.

        Raises:
            RuntimeError: its value alone is more than a batch may be.
        """
        rules = self._rules
        size = 1 if rules.batch_size_fn is None else rules.batch_size_fn([_single(item)])
        if size > rules.max_batch_size:
            raise RuntimeError(
                f"A value of size {size} came to a function with @serve.batch whose max_batch_size is "
                f"{rules.max_batch_size}. Send smaller values, or raise max_batch_size."
            )
        self._items.append(item)
        self._came.set()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._make_batches())

    async def _make_batches(self) -> None:
        while self._items:
            while len(self._running) >= self._rules.max_concurrent_batches:
                await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
            for batch in _by_model(await self._next_batch()):
                task = asyncio.get_running_loop().create_task(self._run(batch))
                self._running.add(task)
                task.add_done_callback(self._running.discard)

    async def _next_batch(self) -> list[_Item]:
        rules = self._rules
        deadline = time.monotonic() + rules.batch_wait_timeout_s
        while True:
            self._items = [each for each in self._items if not _is_done(each)]
            count = self._fits()
            if count and (count < len(self._items) or self._is_full(count)):
                break
            left = deadline - time.monotonic()
            if left <= 0:
                break
            self._came.clear()
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._came.wait(), left)
        batch, self._items = self._items[:count], self._items[count:]
        return batch

    def _fits(self) -> int:
        """How many of the calls that wait make a batch."""
        rules = self._rules
        if rules.batch_size_fn is None:
            return min(len(self._items), rules.max_batch_size)
        count = 0
        for end in range(1, len(self._items) + 1):
            if rules.batch_size_fn([_single(each) for each in self._items[:end]]) > rules.max_batch_size:
                break
            count = end
        return count or min(1, len(self._items))

    def _is_full(self, count: int) -> bool:
        rules = self._rules
        if rules.batch_size_fn is None:
            return count >= rules.max_batch_size
        return bool(
            rules.batch_size_fn([_single(each) for each in self._items[:count]]) >= rules.max_batch_size
        )

    async def _run(self, batch: list[_Item]) -> None:
        batch_context.set(tuple(each.request for each in batch))
        try:
            args, kwargs = _columns(batch)
            owner = () if self._owner is None else (self._owner,)
            made = self._function(*owner, *args, **kwargs)
            if inspect.isasyncgen(made):
                await self._hand_out(batch, made)
                return
            results = await made
            if not isinstance(results, list) and not hasattr(results, "__len__"):
                raise TypeError(
                    f"Batched function must return a list as long as its input, got {type(results).__name__}."
                )
            if len(results) != len(batch):
                raise RayServeException(
                    f"A function with @serve.batch got {len(batch)} values and returned {len(results)}. It must "
                    "return one result for each value."
                )
            for item, result in zip(batch, results):
                if not isinstance(item.answer, asyncio.Queue) and not item.answer.done():
                    item.answer.set_result(result)
        except BaseException as error:
            for item in batch:
                if isinstance(item.answer, asyncio.Queue):
                    item.answer.put_nowait(_Failed(error))
                elif not item.answer.done():
                    item.answer.set_exception(
                        error if isinstance(error, Exception) else RuntimeError(repr(error))
                    )
            if not isinstance(error, Exception):
                raise

    async def _hand_out(self, batch: list[_Item], results: AsyncIterator[Any]) -> None:
        """A generator yields a list with one item for each call, again and again; StopIteration ends one call."""
        queues = [each.answer for each in batch if isinstance(each.answer, asyncio.Queue)]
        waiting = set(range(len(batch)))
        async for row in results:
            if len(row) != len(batch):
                raise ValueError(
                    f"A generator with @serve.batch got {len(batch)} values and yielded a list of {len(row)}. Each "
                    "list must have one item for each value."
                )
            for index, value in enumerate(row):
                if index not in waiting:
                    continue
                if value in (StopIteration, StopAsyncIteration):
                    queues[index].put_nowait(_END)
                    waiting.remove(index)
                else:
                    queues[index].put_nowait(value)
        for index in waiting:
            queues[index].put_nowait(_END)


class _Failed:
    def __init__(self, error: BaseException) -> None:
        self.error = error


def _by_model(batch: list[_Item]) -> list[list[_Item]]:
    """A batch for each model that its requests name: the function has one model at a time."""
    found: dict[str, list[_Item]] = {}
    for item in batch:
        found.setdefault(item.request.multiplexed_model_id, []).append(item)
    return list(found.values())


def _is_done(item: _Item) -> bool:
    return not isinstance(item.answer, asyncio.Queue) and item.answer.done()


def _single(item: _Item) -> object:
    if len(item.args) == 1 and not item.kwargs:
        return item.args[0]
    return (*item.args, *item.kwargs.values())


def _columns(batch: list[_Item]) -> tuple[list[list[object]], dict[str, list[object]]]:
    """From a row for each call to a list for each argument."""
    args = [[each.args[index] for each in batch] for index in range(len(batch[0].args))]
    kwargs = {name: [each.kwargs[name] for each in batch] for name in batch[0].kwargs}
    return args, kwargs


class _Rules:
    """The options of a batched function, which may change while it runs."""

    def __init__(self, size: object, wait_s: object, concurrent: object, size_fn: object) -> None:
        self.set_size(size)
        self.set_wait(wait_s)
        if not isinstance(concurrent, int) or isinstance(concurrent, bool) or concurrent < 1:
            raise ValueError(f"max_concurrent_batches takes a whole number of 1 or more, not {concurrent!r}.")
        if size_fn is not None and not callable(size_fn):
            raise TypeError(
                f"batch_size_fn takes a function or None, not {size_fn!r} ({type(size_fn).__name__})."
            )
        self.max_concurrent_batches: int = concurrent
        self.batch_size_fn = size_fn

    def set_size(self, size: object) -> None:
        """Check and take the size."""
        if isinstance(size, float) and size.is_integer():
            size = int(size)
        if not isinstance(size, int) or isinstance(size, bool):
            raise TypeError(f"max_batch_size takes a whole number of 1 or more, not {size!r}.")
        if size < 1:
            raise ValueError(f"max_batch_size takes a whole number of 1 or more, not {size!r}.")
        self.max_batch_size = size

    def get_size(self) -> int:
        """The size."""
        return self.max_batch_size

    def get_wait(self) -> float:
        """The time."""
        return self.batch_wait_timeout_s

    def set_wait(self, wait_s: object) -> None:
        """Check and take the time."""
        if not isinstance(wait_s, (float, int)) or isinstance(wait_s, bool):
            raise TypeError(f"batch_wait_timeout_s takes a number of seconds, 0 or more, not {wait_s!r}.")
        if wait_s < 0:
            raise ValueError(f"batch_wait_timeout_s takes a number of seconds, 0 or more, not {wait_s!r}.")
        self.batch_wait_timeout_s = float(wait_s)


def batch(
    _func: object = None,
    /,
    max_batch_size: int = 10,
    batch_wait_timeout_s: float = 0.01,
    max_concurrent_batches: int = 1,
    batch_size_fn: Callable[[list[Any]], int] | None = None,
) -> Any:
    """Have a coroutine function called with lists, while its callers pass single values.

    Args:
        max_batch_size: the most calls in one list.
        batch_wait_timeout_s: how long the first call of a list waits for others.
        max_concurrent_batches: how many lists are worked on at a time.
        batch_size_fn: how large a list of values counts; its length by default.

    Raises:
        TypeError: it is not a coroutine function, or an option is of the wrong type.
    """
    if _func is not None:
        if not callable(_func):
            raise TypeError(f"@serve.batch goes on a function or a method, not on {_func!r}.")
        if not _is_async(_func):
            raise TypeError(
                f"@serve.batch needs a coroutine function, not {_func!r}: define it with `async def`."
            )
    rules = _Rules(max_batch_size, batch_wait_timeout_s, max_concurrent_batches, batch_size_fn)

    def decorate(function: Callable[..., object]) -> object:
        if not _is_async(function):
            raise TypeError(
                f"@serve.batch needs a coroutine function, not {function!r}: define it with `async def`."
            )
        return _batched(function, rules)

    return decorate(_func) if _func is not None else decorate


def _is_async(function: Callable[..., object]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


class _Batched:
    """A batched function with its options. Replicas get a copy of this object, pickled by its class, and use the queues
    and contexts of the module in their own process."""

    def __init__(self, function: Callable[..., object], rules: _Rules) -> None:
        self.function, self.rules = function, rules
        self._names = list(inspect.signature(function).parameters)
        self._key = f"__serve_batch_{function.__name__}__"
        self._own: dict[str, tuple[asyncio.AbstractEventLoop, _BatchQueue]] = {}

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_own": {}}  # queues are not pickled

    def enqueue(
        self,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        answer: asyncio.Future[object] | asyncio.Queue[object],
    ) -> None:
        """Put a call in its queue."""
        is_method = bool(self._names) and self._names[0] == "self"
        owner = args[0] if is_method else None
        bound = inspect.signature(self.function).bind(*args, **kwargs)
        values = bound.args[1:] if is_method else bound.args
        home = self._own if owner is None else owner.__dict__
        found = home.get(self._key)
        loop = asyncio.get_running_loop()
        if found is None or found[0] is not loop:
            found = home[self._key] = (loop, _BatchQueue(self.function, owner, self.rules))
        found[1].put(_Item(values, bound.kwargs, answer, request_context.get()))

    async def call(self, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """One call, and its result."""
        answer = asyncio.get_running_loop().create_future()
        self.enqueue(args, kwargs, answer)
        return await answer

    async def stream(self, args: tuple[object, ...], kwargs: dict[str, object]) -> AsyncIterator[object]:
        """One call of a generator, and its items."""
        answers: asyncio.Queue[object] = asyncio.Queue()
        self.enqueue(args, kwargs, answers)
        while (value := await answers.get()) is not _END:
            if isinstance(value, _Failed):
                raise value.error
            yield value


def _batched(function: Callable[..., object], rules: _Rules) -> object:
    batched = _Batched(function, rules)
    wrapper: Any
    if inspect.isasyncgenfunction(function):

        @wraps(function)
        async def generate(*args: object, **kwargs: object) -> AsyncIterator[object]:
            async for each in batched.stream(args, kwargs):
                yield each

        wrapper = generate
    else:

        @wraps(function)
        async def call(*args: object, **kwargs: object) -> object:
            return await batched.call(args, kwargs)

        wrapper = call
    wrapper.set_max_batch_size = rules.set_size
    wrapper.set_batch_wait_timeout_s = rules.set_wait
    wrapper._get_max_batch_size = rules.get_size
    wrapper._get_batch_wait_timeout_s = rules.get_wait
    return wrapper
