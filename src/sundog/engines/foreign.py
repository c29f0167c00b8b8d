"""What an engine must offer that is not sundog's own runtime: the verbs behind the public API.

Owns the protocol alone. `local` is reached through `engines.current()`, which the hot path asks first; an engine of
this kind is asked only where that finds none, so it costs the local engine nothing. What its verbs take and return
are the other system's own refs, handles, generators and groups. Runs wherever the public API is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Protocol, Self, TypeVar

if TYPE_CHECKING:
    from sundog.actor import ActorClass, ActorHandle
    from sundog.generator import ObjectRefGenerator
    from sundog.options import ActorOptions
    from sundog.plain import JsonObject
    from sundog.refs import ObjectRef
    from sundog.remote_function import RemoteFunction

T = TypeVar("T")
Made = TypeVar("Made", covariant=True)
Waitable = TypeVar("Waitable", bound="ObjectRef[object] | ObjectRefGenerator[object]")


class Native(Protocol[Made]):
    """A remote function or an actor class as the other system has it."""

    def options(self, **given: object) -> Self: ...

    def remote(self, *args: object, **kwargs: object) -> Made: ...


class ForeignEngine(Protocol):
    """The engine of this process, while it works on another system."""

    name: str
    is_driver: bool

    @property
    def folder(self) -> str:
        """Of the session in which it records; empty if it does not."""

    # ------------------------------------------------------------------ the session
    def is_initialized(self) -> bool: ...

    def shutdown(self) -> None: ...

    def describe(self) -> JsonObject: ...

    def nodes(self) -> list[JsonObject]: ...

    def cluster_resources(self) -> dict[str, float]: ...

    def available_resources(self) -> dict[str, float]: ...

    def gpu_ids(self) -> list[int] | list[str]: ...

    def runtime_context(self) -> Any: ...

    def flush(self) -> None:
        """Bring what is recorded so far into the session's folder."""

    # ------------------------------------------------------------------ functions and classes
    def bind(self, front: RemoteFunction[..., object] | ActorClass[T]) -> None:
        """A remote function or actor class is about to be pickled: give it what all its copies share."""

    def submit(
        self, front: RemoteFunction[..., object], args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object: ...

    def create(
        self, front: ActorClass[T], options: ActorOptions, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> ActorHandle[T]: ...

    # ------------------------------------------------------------------ objects and actors
    def get(self, refs: object, timeout: float | None) -> object: ...

    def put(self, value: T) -> ObjectRef[T]: ...

    def wait(
        self, refs: list[Waitable], num_returns: int, timeout: float | None, fetch_local: bool
    ) -> tuple[list[Waitable], list[Waitable]]: ...

    def cancel(self, ref: object, *, force: bool, recursive: bool) -> None: ...

    def free(self, refs: list[ObjectRef[object]], local_only: bool) -> None: ...

    def kill(self, actor: object, *, no_restart: bool) -> None: ...

    def get_actor(self, name: str, namespace: str | None) -> ActorHandle[object]: ...

    def named_actors(self, all_namespaces: bool) -> list[str] | list[dict[str, str]]: ...

    def exit_actor(self) -> NoReturn: ...

    # ------------------------------------------------------------------ the rest
    def placement(self, verb: str, *args: object, **kwargs: object) -> Any:
        """A function of the other system's placement groups."""

    def key_values(self, verb: str, *args: object, **kwargs: object) -> Any:
        """A function of the other system's table of small values."""

    def state(self, verb: str, **kwargs: object) -> Any:
        """A question to the other system's state API."""
