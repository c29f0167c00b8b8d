"""Creating actors: registered with the node at once, placed when the constructor's arguments are ready.

The creator holds the arguments' refs until the actor is up, or, if it may restart, until it is dead. Its
handles are counted as refs to one object of the creator's; when that object is free, the actor ends.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from sundog import events
from sundog.engines.lease_requests import lease_of
from sundog.handle_data import HandleData
from sundog.options import ActorOptions
from sundog.owner import call_sites, context
from sundog.owner.evidence import is_async_class, runs_several
from sundog.owner.rows import WAITING, ArgumentWaiter, Fn, Task
from sundog.refs import site_of
from sundog.serialize.pack import pack
from sundog.wire.control import ActorCreated, ActorDead, ActorFail, ActorKill, ActorRegister, ActorStart
from sundog.wire.inspect import inspect_of
from sundog.wire.requests import RegisterNamed

if TYPE_CHECKING:
    from collections.abc import Callable

    from sundog.owner.core import Owner
    from sundog.plain import JsonObject
    from sundog.wire.dicts import Registration

__tracebackhide__ = True  # pytest folds the frames of this file

# What an asyncio actor loads at its start.
_ASYNC = ["asyncio", "sundog.worker.async_actor", "sundog.worker.async_run", "sundog.worker.async_start"]
_UTIL = "sundog.util."


class Creations:
    """Actors of this process that are on their way, or may have to be made again.

    Args:
        owner: of this process.
        env_key: gives the key of a runtime environment.
    """

    def __init__(self, owner: Owner, env_key: Callable[[JsonObject | None], str]) -> None:
        self.owner = owner
        self._env_key = env_key
        self._holds: dict[bytes, tuple[list[bytes], bool]] = {}

    def create(
        self,
        cls: type,
        class_name: str,
        options: ActorOptions,
        data: HandleData,
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> tuple[bytes, bool]:
        """Create an actor; returns its id and whether it is new (get_if_exists may find one).

        Raises:
            ActorAlreadyExistsError: the name is taken.
        """
        owner = self.owner
        options.check_creation()
        actor_id = owner.ids.task()
        registration = self._registration(cls, class_name, options, data)
        self._note_site(actor_id, class_name, registration)
        task = Task(actor_id, Fn(0, f"{class_name}.__init__"), None, owner.wall_s())
        if args or kwargs:
            owner.arguments.pack(task, args, kwargs)
        if options.name:
            found = self._register_named(task, options.name, registration)
            if found != actor_id:
                return found, False
        with owner.lock:
            owner.check_open()
            if not options.name:
                owner.control.send(ActorRegister(actor_id, registration))
            if not registration["detached"]:
                owner.actors.scopes.add(owner.actors.scope_id(actor_id))
            self._holds[actor_id] = (task.holds or [], options.max_restarts != 0)
            if task.state == WAITING:
                self._await(task)
            else:
                owner.control.send(ActorStart(actor_id, task.args, task.extra))
        return actor_id, True

    def _registration(
        self, cls: type, class_name: str, options: ActorOptions, data: HandleData
    ) -> Registration:
        """What the node keeps of an actor, and hands to each worker that becomes it."""
        owner = self.owner
        code = owner.tasks.make_fn(cls, class_name).code
        assert code is not None
        spec, setup = lease_of(options, self._env_key(options.runtime_env))
        data.concurrent = runs_several(cls, options)
        is_async = is_async_class(cls)
        if is_async and options.allow_out_of_order_execution is False:
            raise ValueError(
                f"The calls of asyncio actor {class_name} run at the same time, so they cannot keep their order: leave "
                "allow_out_of_order_execution unset."
            )
        # Calls that run at the same time do not wait for each other's arguments.
        data.out_of_order = data.out_of_order or is_async or (options.max_concurrency or 1) > 1
        return {
            "detached": lives_on(options),
            "max_restarts": options.max_restarts,
            "get_if_exists": options.get_if_exists,
            "namespace": options.namespace or context.facts.namespace,
            "name": options.name or "",
            "class_name": class_name,
            "class_path": getattr(cls, "__qualname__", class_name),
            "lease": spec,
            "setup": setup,
            "imports": _imports_of(cls, is_async),
            "blob": code.blob,
            "max_concurrency": options.max_concurrency,
            "concurrency_groups": options.concurrency_groups,
            "retry_exceptions": False,
            "job_id": context.facts.job_id,
            "submit_s": owner.wall_s(),
            "hidden": not options.enable_task_events,
            "inspect": inspect_of(options),
            "unread_max": data.unread_max,
            # Packed: retry_exceptions of a method may name classes of the user, which the node cannot import.
            "handle": pack(data, 1 << 62)[0],
        }

    def _note_site(self, actor_id: bytes, class_name: str, registration: Registration) -> None:
        """Record where in the user's program the actor is created."""
        owner = self.owner
        site = registration["call_site"] = _users_site()
        now, place = owner.wall_s(), owner.ring.name(site, f"{call_sites.MARK}{class_name}.__init__")
        owner.ring.write(events.SITE, actor_id, place, now, now, now)

    def _register_named(self, task: Task, name: str, registration: Registration) -> bytes:
        """Register an actor under its name; returns the id of the actor that has the name, which may be another."""
        owner, found = self.owner, b""
        try:
            found = owner.control.request(
                RegisterNamed(task.id, name, registration["namespace"], registration)
            )
        except BaseException:
            # No effect if the name is taken. But the handler of a signal may have raised before the answer
            # arrived.
            owner.control.send(ActorKill(task.id, no_restart=True))
            raise
        finally:
            if found != task.id:
                self._drop(task.holds or [])  # the name is taken
        return found

    def _await(self, task: Task) -> None:
        """Start the actor once the refs among its arguments are ready."""
        owner = self.owner
        task.waiter = _WaitingConstructor(self, task)
        owner.arguments.await_all(task)

    def ready(self, task: Task) -> None:
        """All arguments are here."""
        self.owner.control.send(ActorStart(task.id, task.args, task.extra))

    def failed(self, task: Task, error: bytes) -> None:
        """An argument failed: so does the actor."""
        self.owner.control.send(ActorFail(task.id, error))

    # ------------------------------------------------------------------ from the node (locked)
    def created(self, message: ActorCreated) -> None:
        """An actor is up: its arguments may go, unless it may have to be made again."""
        _, actor_id, worker, held = message
        self.owner.refs.reply_held(worker, held)
        holds, restartable = self._holds.get(actor_id, ([], False))
        if not restartable:
            self._holds.pop(actor_id, None)
            self._drop(holds)
        self.owner.objects.carry_out()

    def dead(self, message: ActorDead) -> None:
        """An actor has ended and does not restart."""
        actor_id = message.actor_id
        holds, _ = self._holds.pop(actor_id, ([], False))
        self._drop(holds)
        if (
            not message.keeps_name
        ):  # otherwise the node is told when the last handle is gone: then the name is free
            self.owner.actors.scopes.discard(self.owner.actors.scope_id(actor_id))

    def _drop(self, holds: list[bytes]) -> None:
        with self.owner.lock:
            for oid in holds:
                self.owner.refs.drop(oid)
            self.owner.objects.carry_out()


def lives_on(options: ActorOptions) -> bool:
    """Whether an actor outlives its handles and its program: it says so, or its job does and it says nothing."""
    return options.lifetime == "detached" or (options.lifetime is None and context.facts.detached_by_default)


def _imports_of(cls: type, is_async: bool) -> list[str]:
    """Modules that the process of such an actor needs, besides those that workers have loaded.

    This process has the last one loaded, so the modules that it imports are the same in both. Others of the user's may
    not be named here: they are edited.
    """
    return [*(_ASYNC if is_async else ()), *([cls.__module__] if cls.__module__.startswith(_UTIL) else ())]


def _users_site() -> str:
    """The place in the user's program that led here."""
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("sundog."):
        frame = frame.f_back
    return site_of(frame.f_code, frame.f_lasti)


class _WaitingConstructor(ArgumentWaiter):
    """Stands where a call's actor would: a constructor whose arguments are not ready."""

    def __init__(self, creations: Creations, task: Task) -> None:
        self.creations = creations
        self.task = task

    def start(self, task: Task) -> None:
        """The arguments are ready."""
        self.creations.ready(task)

    def fail(self, task: Task, error: bytes) -> None:
        """An argument is an error."""
        self.creations.failed(task, error)
