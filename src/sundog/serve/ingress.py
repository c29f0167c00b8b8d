"""`@serve.ingress(app)`: a deployment whose HTTP requests are handled by a FastAPI or other ASGI app.

Owns how methods of the class become handlers with `self`, and the app's life (lifespan events). The decorator runs
in the user's process; the app is copied into each replica.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import cloudpickle

from sundog.serve.context import get_replica_context
from sundog.serve.imports import dumps

if TYPE_CHECKING:
    from typing import TypeGuard

    from fastapi import FastAPI
    from starlette.types import ASGIApp, Message

T = TypeVar("T")
BUILD_METHOD = "__serve_build_asgi_app__"


class Lifespan:
    """Runs the lifespan protocol of an ASGI app, as a server would."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._inbox: asyncio.Queue[Message] = asyncio.Queue()
        self._started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None
        self.state: dict[str, object] = {}

    async def startup(self) -> None:
        """Raises RuntimeError if the app says that it cannot start."""
        self._task = asyncio.create_task(self._run())
        await self._inbox.put({"type": "lifespan.startup"})
        failed = await self._started
        if failed:
            raise RuntimeError(f"ASGI lifespan startup failed: {failed}")

    async def shutdown(self) -> None:
        """Tell the app that it ends, and wait until it has."""
        if self._task is not None and not self._task.done():
            await self._inbox.put({"type": "lifespan.shutdown"})
            await asyncio.wait([self._stopped, self._task], return_when=asyncio.FIRST_COMPLETED)

    async def _run(self) -> None:
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self.state}
        try:
            await self._app(scope, self._inbox.get, self._send)
        except BaseException as error:
            # An app without lifespan support raises at its first message; an app that fails reports it before
            # it raises.
            if not self._started.done():
                self._started.set_result("")
            if not isinstance(error, Exception):
                raise
        finally:
            for each in (self._started, self._stopped):
                if not each.done():
                    each.set_result("")  # type: ignore[arg-type]

    async def _send(self, message: Message) -> None:
        kind = message["type"]
        if kind == "lifespan.startup.complete" and not self._started.done():
            self._started.set_result("")
        elif kind == "lifespan.startup.failed" and not self._started.done():
            self._started.set_result(message.get("message") or "the app gave no reason")
        elif kind.startswith("lifespan.shutdown") and not self._stopped.done():
            self._stopped.set_result(None)


class AsgiIngress:
    """What `@serve.ingress` adds to a class."""

    _asgi_app: ASGIApp = None  # type: ignore[assignment]  # until the replica has made it
    _lifespan: Lifespan | None = None

    @property
    def app(self) -> ASGIApp:
        """The ASGI app."""
        return self._asgi_app

    @property
    def docs_path(self) -> str | None:
        """Where the app's own documentation is."""
        return getattr(self._asgi_app, "docs_url", None)


async def start_app(servable: AsgiIngress, on_unavailable: Callable[..., object]) -> None:
    """Make the app of a replica ready: build it if the class does, and run its startup."""
    build = getattr(servable, BUILD_METHOD, None)
    if build is not None:
        made = build()
        if inspect.isawaitable(made):
            made = await made
        if made is None:
            raise TypeError(f"`{BUILD_METHOD}` must return an ASGI app.")
        servable._asgi_app = made
    app = servable._asgi_app
    if hasattr(app, "add_exception_handler"):
        from sundog.serve.exceptions import BackPressureError, DeploymentUnavailableError

        app.add_exception_handler(BackPressureError, on_unavailable)
        app.add_exception_handler(DeploymentUnavailableError, on_unavailable)
    servable._lifespan = Lifespan(app)
    await servable._lifespan.startup()


def ingress(app: object = None) -> Callable[[type[T]], type[T]]:
    """Handle the HTTP requests of a deployment with an ASGI app; methods of the class may be its handlers.

    Args:
        app: a FastAPI app, an APIRouter, any ASGI app, or a function that returns one in the replica.

    Raises:
        ValueError: the decorated object is not a class, or has `__call__`.
    """

    def decorate(cls: type[T] | None = None) -> type[T]:
        if cls is None:
            cls = type("ASGIIngressDeployment", (), {"__init__": lambda self, *args, **kwargs: None})
        if not inspect.isclass(cls):
            raise ValueError(f"@serve.ingress decorates a class, not {cls!r}.")
        if "__call__" in dir(cls):
            raise ValueError(
                f"{cls.__name__} has `__call__`, but with @serve.ingress the app answers the requests. Remove "
                "`__call__` or the decorator."
            )
        if app is None and not hasattr(cls, BUILD_METHOD):
            raise ValueError(
                f"{cls.__name__} has no app: serve.ingress() was given none. Pass one, or define `{BUILD_METHOD}`."
            )
        if _is_fastapi(app):
            _bind_methods(app, cls)
        blob = None if app is None else _frozen(app)
        return _wrapped(cls, blob)

    return decorate


def _frozen(app: object) -> bytes:
    try:
        return dumps(app)
    except Exception as error:
        raise TypeError(f"Failed to serialize the ASGI app: {error}") from error


def _wrapped(cls: type[T], blob: bytes | None) -> type[T]:
    class Ingress(cls, AsgiIngress):  # type: ignore[misc, valid-type]
        async def __init__(self, *args: object, **kwargs: object) -> None:  # type: ignore[misc]
            made = cls.__init__(self, *args, **kwargs)
            if inspect.isawaitable(made):
                await made
            if blob is not None:
                app = cloudpickle.loads(blob)
                self._asgi_app = app() if _makes_app(app) else app

        def __init_subclass__(subcls, **kwargs: object) -> None:
            super().__init_subclass__(**kwargs)
            if not inspect.iscoroutinefunction(subcls.__init__):
                raise TypeError(
                    f"{subcls.__name__}.__init__ must be `async def`: it is a subclass of a class decorated with "
                    "@serve.ingress, whose __init__ is a coroutine. Write `async def __init__` and `await "
                    "super().__init__(...)`."
                )

        async def __del__(self) -> None:
            lifespan = self.__dict__.get("_lifespan")
            if lifespan is not None:
                await lifespan.shutdown()
            theirs = getattr(cls, "__del__", None)
            if theirs is not None:
                made = theirs(self)
                if inspect.isawaitable(made):
                    await made

    for name in ("__name__", "__qualname__", "__module__", "__doc__"):
        setattr(Ingress, name, getattr(cls, name))
    Ingress.__annotations__ = inspect.get_annotations(cls)
    Ingress.__wrapped__ = cls
    return Ingress


def _makes_app(app: object) -> TypeGuard[Callable[[], ASGIApp]]:
    """Whether it is a function that makes an app; a coroutine function is an app itself."""
    return inspect.isfunction(app) and not inspect.iscoroutinefunction(app)


def _is_fastapi(app: object) -> TypeGuard[FastAPI]:
    try:
        from fastapi import APIRouter, FastAPI
    except ImportError:
        return False
    return isinstance(app, (FastAPI, APIRouter))


def _bind_methods(app: FastAPI, cls: type) -> None:
    """Give the methods among an app's handlers the replica's object as `self`."""
    from fastapi import APIRouter, Depends
    from fastapi.routing import APIRoute, APIWebSocketRoute

    async def current_object() -> object:
        return get_replica_context().servable_object

    bases = tuple(f"{each.__qualname__}." for each in cls.__mro__ if each is not object)
    mine = [
        (parent, route, prefix)
        for parent, route, prefix in _routes_of(app)
        if isinstance(route, (APIRoute, APIWebSocketRoute))
        and getattr(route.endpoint, "__qualname__", "").startswith(bases)
    ]
    router = APIRouter()
    for parent, route, prefix in mine:
        parent.routes.remove(route)
        if prefix:
            from starlette.routing import compile_path

            route.path = prefix + route.path
            route.path_regex, route.path_format, route.param_convertors = compile_path(route.path)
        signature = inspect.signature(route.endpoint)
        first, *rest = signature.parameters.values()
        given = [first.replace(default=Depends(current_object))]
        given += [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in rest]
        vars(route.endpoint).update(__signature__=signature.replace(parameters=given), __serve_class__=cls)
        router.routes.append(route)
    app.include_router(router)
    kept = []
    for parent, route, _ in _routes_of(app):
        owner = getattr(getattr(route, "endpoint", None), "__serve_class__", None)
        if owner is not None and owner is not cls:
            kept.append((parent, route))
    for parent, route in kept:  # routes of another class that uses the same app
        parent.routes.remove(route)


def _routes_of(router: Any, prefix: str = "") -> list[tuple[Any, Any, str]]:
    """All routes, with the router that each is in and the prefix of that router."""
    found = []
    for route in list(router.routes):
        inner = getattr(route, "original_router", None)  # newer FastAPI keeps an included router as one node
        if inner is not None:
            found += _routes_of(inner, prefix + route.include_context.prefix)
        else:
            found.append((router, route, prefix))
    return found
