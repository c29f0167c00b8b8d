"""`@serve.multiplexed`: a few models out of many, loaded when a request asks for one.

Owns the models of a replica: the least recently used one is let go when there are too many. The controller is told
which are loaded, so that routers prefer replicas that have a model. Runs in a replica's event loop.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import OrderedDict
from functools import wraps
from typing import TYPE_CHECKING, TypeVar, overload
from weakref import WeakSet

from sundog.serve.context import _get_internal_replica_context

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

F = TypeVar("F", bound="Callable[..., Awaitable[object]]")
_kept: WeakSet[_Models] = WeakSet()  # of this process
_ends: dict[
    type, Callable[[object], Awaitable[object]]
] = {}  # `__del__` methods of models' classes that are coroutines: Python itself must not call them


class _Models:
    def __init__(
        self, load: Callable[..., Awaitable[object]], home: object, is_method: bool, limit: int
    ) -> None:
        self._load, self.home, self.is_method, self._limit = load, home, is_method, limit
        self.models: OrderedDict[str, object] = OrderedDict()
        self._lock = asyncio.Lock()
        _kept.add(self)

    async def get(self, model_id: object) -> object:
        """A model, loaded if it is not."""
        if not isinstance(model_id, str):
            raise TypeError(f"A model is asked for by its ID, a str, not by {model_id!r}.")
        if not model_id:
            raise ValueError(f"A model's ID needs at least one character, not {model_id!r}.")
        async with self._lock:  # one load at a time: two loads of one model would need its memory twice
            if model_id in self.models:
                self.models.move_to_end(model_id)
                return self.models[model_id]
            while self._limit > 0 and len(self.models) >= self._limit:
                await self.unload()
            owner = (self.home,) if self.is_method else ()
            self.models[model_id] = await self._load(*owner, model_id)
            _tell(self.home)
            return self.models[model_id]

    async def unload(self) -> None:
        """Let the model go that has not been asked for longest; its `__del__` may be a coroutine."""
        _, model = self.models.popitem(last=False)
        kind = type(model)
        end = getattr(kind, "__del__", None)
        if inspect.iscoroutinefunction(end):
            _ends[kind] = end
            kind.__del__ = lambda _self: None  # type: ignore[attr-defined]  # the class has one
        if kind in _ends:
            await _ends[kind](model)


async def unload_all(home: object) -> None:
    """A replica ends, whose object is `home`: its models go first."""
    for each in list(_kept):
        while each.models and (each.home is home or not each.is_method):
            await each.unload()


def _tell(home: object) -> None:
    """Let the controller know which models this replica has."""
    replica = _get_internal_replica_context()
    if replica is None:
        return
    from sundog.serve import client as clients

    loaded = [name for found in _all(home) for name in found.models]
    client = clients.connect(or_none=True)
    if client is not None:
        where = replica.replica_id
        client.controller.models_changed.remote(where.deployment_id, where.unique_id, tuple(loaded))


def _all(home: object) -> list[_Models]:
    return [each for each in vars(home).values() if isinstance(each, _Models)]


class _Multiplexed:
    """A function that loads models. Replicas get a copy of this object, pickled by its class."""

    def __init__(self, function: Callable[..., Awaitable[object]], limit: int) -> None:
        self._function, self._limit = function, limit
        self._is_method = next(iter(inspect.signature(function).parameters)) == "self"
        self._key = f"__serve_models_{function.__name__}__"

    def __getstate__(self) -> dict[str, object]:
        return {key: value for key, value in self.__dict__.items() if not isinstance(value, _Models)}

    async def get(self, args: tuple[object, ...]) -> object:
        """A model, loaded if it is not."""
        if len(args) != 1 + self._is_method:
            raise TypeError(
                "Functions decorated with `@serve.multiplexed` must take exactly one argument, the multiplexed "
                f"model ID (str), but got {len(args) - self._is_method}."
            )
        home = args[0] if self._is_method else self
        found = vars(home).get(self._key)
        if found is None:
            found = _Models(self._function, home, self._is_method, self._limit)
            vars(home)[self._key] = found
        return await found.get(args[-1])


@overload
def multiplexed(func: F, max_num_models_per_replica: int = 3) -> F: ...
@overload
def multiplexed(func: None = None, max_num_models_per_replica: int = 3) -> Callable[[F], F]: ...
def multiplexed(
    func: Callable[..., Awaitable[object]] | None = None, max_num_models_per_replica: int = 3
) -> object:
    """Make a coroutine function that loads a model keep the models, at most this many.

    Raises:
        TypeError: it is not a coroutine function of a model's id.
        ValueError: the number is not positive, nor -1 for any number.
    """
    if func is not None:
        _check(func)
    if not isinstance(max_num_models_per_replica, int):
        raise TypeError(f"max_num_models_per_replica takes an int, not {max_num_models_per_replica!r}.")
    if max_num_models_per_replica != -1 and max_num_models_per_replica <= 0:
        raise ValueError("max_num_models_per_replica must be positive.")

    def decorate(function: Callable[..., Awaitable[object]]) -> object:
        _check(function)
        kept = _Multiplexed(function, max_num_models_per_replica)

        @wraps(function)
        async def get(*args: object) -> object:
            return await kept.get(args)

        return get

    return decorate if func is None else decorate(func)


def _check(function: object) -> None:
    if not callable(function):
        raise TypeError(f"@serve.multiplexed takes a function or a method, not {function!r}.")
    if not inspect.iscoroutinefunction(function):
        raise TypeError(f"@serve.multiplexed awaits the loader, so define {function!r} with `async def`.")
    if not 1 <= len(inspect.signature(function).parameters) <= 2:
        raise TypeError(
            f"@serve.multiplexed calls the loader with one argument, the model's ID. Give {function!r} the parameter "
            f"`model_id: str`; its parameters are {inspect.signature(function)}."
        )
