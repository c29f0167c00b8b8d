"""OpenTelemetry spans of tasks and actor calls: one where work is submitted, one where it runs, in the same trace.

::

    init(_tracing_startup_hook="module:function")          setting tracing_startup_hook, so every process of the session
        │ each process: import the hook, call it
        ├─ submits: "f ray.remote"         PRODUCER ── its context travels as a keyword argument ──┐
        └─ runs:    "f ray.remote_worker"  CONSUMER ◄── taken out before the function is called ───┘

Owns the spans and the way of their context. While tracing is off none of this is loaded: it is switched on by replacing
three methods of this process' owner, and off by putting them back. Needs the extra `sundog[otel]`; names of spans and
attributes are Ray's, so boards made for Ray show them. Runs in every driver and worker of such a session, on the
threads that submit and run tasks.
"""

from __future__ import annotations

import functools
import inspect
import os
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

from sundog.engines.creation import Creations
from sundog.owner import context
from sundog.owner.actors import ActorCalls
from sundog.owner.tasks import Tasks

if TYPE_CHECKING:
    from sundog.engines.local import LocalEngine
    from sundog.owner.lanes import ActorLane
    from sundog.owner.rows import Fn

KEYWORD = "_ray_trace_ctx"
_TRACED = "__sundog_traced__"
_INIT = "__init__"
_INSTALL = "Tracing needs OpenTelemetry: pip install 'sundog[otel]'"
R = TypeVar("R")
_replaced: list[tuple[type, str, Callable[..., object]]] = []


class TracingHookError(ValueError):
    """The tracing hook cannot be found or failed."""


# ---------------------------------------------------------------------- switching on and off
def check_hook(hook: str) -> None:
    """Refuse a hook that cannot be meant, before a session is started with it.

    Raises:
        TracingHookError: it is not "module:function".
        ImportError: OpenTelemetry is not installed.
    """
    module, _, function = hook.partition(":") if isinstance(hook, str) else ("", "", "")
    if not module or not function:
        raise TracingHookError(
            f"A tracing hook is written 'module:function', as in 'my_tracing:setup_tracing', not {hook!r}."
        )
    try:
        import_module("opentelemetry.trace")
    except ImportError as error:
        raise ImportError(_INSTALL) from error


def begin(hook: str) -> None:
    """Set up tracing in this process, and trace what it submits from now on.

    Raises:
        TracingHookError: the hook cannot be found, or failed; the process submits with spans of the default tracer.
    """
    install()
    module, _, names = hook.partition(":")
    try:
        attrgetter(names)(import_module(module))()
    except Exception as error:
        raise TracingHookError(
            f"The tracing hook {hook!r} failed in process {os.getpid()}: {type(error).__name__}: {error}. It must be "
            "importable in every process of the session, and takes no arguments."
        ) from error


def begin_driver(engine: LocalEngine) -> None:
    """The same for a driver, until `end`."""
    begin(engine.owner.config.tracing_startup_hook)
    engine.create_actor = engine.creations.create


def install() -> None:
    """Replace the methods that submit by those that also make a span; harmless if that is done."""
    if _replaced:
        return
    replacements: tuple[tuple[type, str, Callable[..., object]], ...] = (
        (Tasks, "submit", _submit),
        (ActorCalls, "call", _call),
        (Creations, "create", _create),
    )
    for owner, name, traced in replacements:
        original = getattr(owner, name)
        _replaced.append((owner, name, original))
        setattr(owner, name, _replacement(traced, original))


def _replacement(traced: Callable[..., R], original: Callable[..., R]) -> Callable[..., R]:
    def method(*args: object) -> R:
        return traced(original, *args)

    return functools.update_wrapper(method, original)


def end() -> None:
    """Trace no more; what is waiting to be exported is."""
    end_quietly()
    flush()


def end_quietly() -> None:
    """Put the methods back that submit without a span."""
    while _replaced:
        owner, name, original = _replaced.pop()
        setattr(owner, name, original)


def flush(timeout_ms: int = 2000) -> None:
    """Have spans exported that wait in a batch, if there are any."""
    provider = import_module("opentelemetry.trace").get_tracer_provider()
    force = getattr(provider, "force_flush", None)
    if force is not None:
        force(timeout_ms)


# ---------------------------------------------------------------------- submitting
def _submit(original: Callable[..., R], self: Tasks, fn: Fn, args: object, kwargs: Mapping[str, object]) -> R:
    function = fn.code.function if fn.code is not None else None
    if isinstance(function, weakref.ref):
        function = function()
    module = getattr(function, "__module__", "")
    name = f"{module}.{fn.function}" if module else fn.function
    with _produced(f"{name} ray.remote", _task_facts(name)) as carrier:
        return original(self, fn, args, {**kwargs, KEYWORD: carrier})


def _call(
    original: Callable[..., R],
    self: ActorCalls,
    link: ActorLane,
    fn: Fn,
    args: object,
    kwargs: Mapping[str, object],
) -> R:
    method = str(fn.number)
    if method.startswith("__") and method != "__call__":
        return original(self, link, fn, args, kwargs)  # sundog's own, such as __ray_ready__
    class_name = link.name
    facts = _actor_facts(class_name, method) | {"ray.actor_id": link.actor_id.hex()}
    with _produced(f"{class_name}.{method} ray.remote", facts) as carrier:
        return original(self, link, fn, args, {**kwargs, KEYWORD: carrier})


def _create(
    original: Callable[..., R],
    self: Creations,
    cls: object,
    name: str,
    options: object,
    data: object,
    args: object,
    kwargs: Mapping[str, object],
) -> R:
    with _produced(f"{name}.__init__ ray.remote", _actor_facts(name, "__init__")) as carrier:
        return original(self, cls, name, options, data, args, {**kwargs, KEYWORD: carrier})


@contextmanager
def _produced(name: str, facts: dict[str, str]) -> Iterator[dict[str, str]]:
    trace, propagate = import_module("opentelemetry.trace"), import_module("opentelemetry.propagate")
    with trace.get_tracer(__name__).start_as_current_span(
        name, kind=trace.SpanKind.PRODUCER, attributes=facts
    ):
        carrier: dict[str, str] = {}
        propagate.inject(carrier)
        yield carrier


# ---------------------------------------------------------------------- running
def traced_function(function: Callable[..., object]) -> Callable[..., object]:
    """A function that runs within a span of the trace that it was submitted in."""
    name = f"{getattr(function, '__module__', '')}.{getattr(function, '__name__', '')}"
    return _wrapped(function, lambda _args: (f"{name} ray.remote_worker", _task_facts(name)))


def trace_class(cls: type) -> None:
    """Have every method of an actor's class run within such a span; once."""
    if _TRACED in vars(cls):
        return
    setattr(cls, _TRACED, True)
    for name, method in inspect.getmembers(cls, inspect.isfunction):
        if isinstance(inspect.getattr_static(cls, name), staticmethod):
            continue
        if name.startswith("__") and name not in ("__init__", "__call__"):
            continue
        setattr(cls, name, _wrapped(method, _method_span(cls.__name__, name)))
    if "__init__" not in vars(cls):
        init = getattr(cls, _INIT)
        setattr(cls, _INIT, _wrapped(init, _method_span(cls.__name__, _INIT)))


def _method_span(class_name: str, method: str) -> Callable[[object], tuple[str, dict[str, str]]]:
    return lambda _args: (
        f"{class_name}.{method} ray.remote_worker",
        _actor_facts(class_name, method, here=True),
    )


def _wrapped(
    function: Callable[..., object], describe: Callable[[object], tuple[str, dict[str, str]]]
) -> Callable[..., object]:
    """The same kind of function; one that is called without a context, as by another method, makes no span."""
    if inspect.isasyncgenfunction(function):

        async def traced_stream(*args: object, **kwargs: object) -> AsyncIterator[object]:
            with _consumed(kwargs.pop(KEYWORD, None), *describe(args)):
                async for item in function(*args, **kwargs):
                    yield item

        traced: Callable[..., object] = traced_stream
    elif inspect.iscoroutinefunction(function):

        async def traced_coroutine(*args: object, **kwargs: object) -> object:
            with _consumed(kwargs.pop(KEYWORD, None), *describe(args)):
                return await function(*args, **kwargs)

        traced = traced_coroutine
    elif inspect.isgeneratorfunction(function):

        def traced_generator(*args: object, **kwargs: object) -> Iterator[object]:
            with _consumed(kwargs.pop(KEYWORD, None), *describe(args)):
                yield from function(*args, **kwargs)

        traced = traced_generator
    else:

        def traced_call(*args: object, **kwargs: object) -> object:
            with _consumed(kwargs.pop(KEYWORD, None), *describe(args)):
                return function(*args, **kwargs)

        traced = traced_call
    return functools.update_wrapper(traced, function)


@contextmanager
def _consumed(carrier: object, name: str, facts: dict[str, str]) -> Iterator[None]:
    if carrier is None:
        yield
        return
    contexts, trace = import_module("opentelemetry.context"), import_module("opentelemetry.trace")
    token = contexts.attach(import_module("opentelemetry.propagate").extract(carrier))
    try:
        with trace.get_tracer(__name__).start_as_current_span(
            name, kind=trace.SpanKind.CONSUMER, attributes=facts
        ):
            yield
    finally:
        contexts.detach(token)


# ---------------------------------------------------------------------- attributes
def _task_facts(name: str) -> dict[str, str]:
    running = context.current()
    facts = {"ray.remote": "function", "ray.function": name, **_process_facts()}
    return facts | ({"ray.task_id": running.task_id.hex()} if running is not None else {})


def _actor_facts(class_name: str, method: str, *, here: bool = False) -> dict[str, str]:
    facts = {
        "ray.remote": "actor",
        "ray.actor_class": class_name,
        "ray.actor_method": method,
        "ray.function": f"{class_name}.{method}",
        **_process_facts(),
    }
    actor_id = context.facts.actor_id if here else None
    return facts | ({"ray.actor_id": actor_id.hex()} if actor_id is not None else {})


def _process_facts() -> dict[str, str]:
    facts = context.facts
    return {
        "ray.pid": str(os.getpid()),
        "ray.job_id": facts.job_id.hex(),
        "ray.node_id": facts.node_id.hex(),
        "ray.worker_id": facts.process_id.hex(),
    }
