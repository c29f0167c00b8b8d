"""Programs that say `import ray`, on Ray itself, with sundog's records: Ray's own verbs are wrapped in place.

Owns these wrappers (`sundog run --engine ray`). What a program holds and calls is Ray's. Ray's libraries are left as
they are. Runs in the driver, before its program.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING

from sundog import engines, events
from sundog.ray_engine import graft, joining, shim, versions
from sundog.ray_engine.engine import RayEngine, noted
from sundog.wire.inspect import measured_of_all

if TYPE_CHECKING:
    from types import ModuleType

    from sundog.plain import JsonMapping

_LIBRARIES = ("ray", "sundog")


def instrument() -> None:
    """Wrap `ray.remote`, `get`, `put`, `wait`, `init` and `shutdown`.

    Raises:
        ImportError: Ray is not here, or is another release.
    """
    ray = versions.import_ray()
    graft.graft(ray)
    plain = {name: getattr(ray, name) for name in ("remote", "get", "put", "wait", "init", "shutdown")}
    vars(ray).update(
        remote=_remote(plain["remote"]),
        init=_init(ray, plain["init"]),
        shutdown=_shutdown(plain["shutdown"]),
        get=_get(plain["get"]),
        put=_put(plain["put"]),
        wait=_wait(plain["wait"]),
    )
    for name, verb in plain.items():
        getattr(
            ray, name
        ).__sundog_native__ = verb  # a program may use both names, and the engine records its own events


def _remote(plain: Callable[..., Callable[[object], object]]) -> Callable[..., object]:
    @functools.wraps(plain)
    def remote(*args: object, **options: object) -> object:
        if len(args) == 1 and not options and callable(args[0]):
            return plain(_dressed(args[0]))
        decorate = plain(*args, **options)
        return lambda target: decorate(_dressed(target))

    return remote


def _dressed(target: object) -> object:
    home = (getattr(target, "__module__", None) or "").split(".")[0]
    if home in _LIBRARIES or not (inspect.isfunction(target) or inspect.isclass(target)):
        return target
    own = (("profile", measured_of_all()),) if measured_of_all() else ()  # sundog profile run
    return shim.actor_class(target, own) if inspect.isclass(target) else shim.task(target, own)


def _init(ray: ModuleType, plain: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(plain)
    def init(address: str | None = None, *, runtime_env: JsonMapping | None = None, **rest: object) -> object:
        was_there = ray.is_initialized()
        if not was_there:
            runtime_env = joining.environment(runtime_env, address) or None
        context = plain(address, runtime_env=runtime_env, **rest)
        if not was_there:
            joining.attach(ray, is_driver=True)
        return context

    return init


def _shutdown(plain: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(plain)
    def shutdown(*args: object, **kwargs: object) -> object:
        other = engines.foreign
        if other is not None and other.is_driver:
            other.shutdown()
            return None
        return plain(*args, **kwargs)

    return shutdown


def _get(plain: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(plain)
    def get(object_refs: object, *, timeout: float | None = None, **rest: object) -> object:
        return noted(events.GET, object_refs, _waiting(plain), object_refs, timeout=timeout, **rest)

    return get


def _put(plain: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(plain)
    def put(value: object, **rest: object) -> object:
        return noted(events.PUT, None, plain, value, **rest)

    return put


def _wait(plain: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(plain)
    def wait(ray_waitables: object, **rest: object) -> object:
        return noted(events.WAIT, ray_waitables, _waiting(plain), ray_waitables, **rest)

    return wait


def _waiting(plain: Callable[..., object]) -> Callable[..., object]:
    other = engines.foreign
    # At its end the engine itself waits for the last records; the waits of the program are over by then.
    return other.waiting(plain) if isinstance(other, RayEngine) and not other.is_left else plain
