"""`get_runtime_context()`: what the running code can ask about itself."""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sundog import engines
from sundog.accelerator_kinds import KINDS
from sundog.notices import RayDeprecationWarning
from sundog.owner import context
from sundog.public_ids import ActorID, JobID, NodeID, PlacementGroupID, TaskID, WorkerID
from sundog.wire.requests import Nodes

if TYPE_CHECKING:
    from types import FrameType

    from sundog.actor import ActorHandle
    from sundog.runtime_env import RuntimeEnv

# The kinds of accelerators that have a resource of their own. Of kinds other than GPUs no ids are kept.

M = TypeVar("M", bound=Callable[..., object])


def _deprecated(instead: str) -> Callable[[M], M]:
    """A name that Ray keeps for older programs, and warns of."""

    def mark(method: M) -> M:
        @functools.wraps(method)
        def warn(self: object) -> object:
            text = f"RuntimeContext.{method.__name__} may go away. {instead}".rstrip()
            warnings.warn(text, RayDeprecationWarning, stacklevel=2)
            return method(self)

        return cast(M, warn)

    return mark


class RuntimeContext:
    """Facts about the process, task and actor that asks."""

    # ------------------------------------------------------------------ ids
    def get_job_id(self) -> str:
        """The job's id in hexadecimal."""
        return context.facts.job_id.hex()

    def get_node_id(self) -> str:
        """The node's id in hexadecimal."""
        return context.facts.node_id.hex()

    def get_worker_id(self) -> str:
        """The process' id in hexadecimal."""
        return context.facts.process_id.hex()

    def get_task_id(self) -> str | None:
        """The running task's id; None in a driver."""
        running = context.current()
        return running.task_id.hex() if running is not None else None

    def get_task_name(self) -> str | None:
        """The name of the running task: its function's, "Class.method" of a call, or the one that it was given."""
        running = context.current()
        if running is None:
            return "" if context.facts.mode == "worker" else None  # a thread that the task started
        if running.name.endswith(".__init__") and context.facts.actor_name:
            return f"{context.facts.actor_name}:{running.name}"
        data = context.facts.actor_handle()
        if data is not None and running.name in data.members.signatures:
            return f"{context.facts.actor_class}.{running.name}"
        return running.name

    def get_task_function_name(self) -> str | None:
        """The running function's name with its module's, whatever name the task was given."""
        running = context.current()
        if running is None:
            return "" if context.facts.mode == "worker" else None
        return _function_name() or running.name

    def get_attempt_number(self) -> int:
        """How often this task was tried before (0 the first time)."""
        running = context.current()
        return running.attempt if running is not None else 0

    def get_actor_id(self) -> str | None:
        """The running actor's id; None outside of actors."""
        found = context.facts.actor_id
        return found.hex() if found is not None else None

    def get_actor_name(self) -> str | None:
        """The running actor's name: "" without one, None outside of actors."""
        return context.facts.actor_name if context.facts.actor_id is not None else None

    @property
    @_deprecated("Use get_job_id() instead")
    def job_id(self) -> JobID:
        """The job's id."""
        return JobID(context.facts.job_id)

    @property
    @_deprecated("Use get_node_id() instead")
    def node_id(self) -> NodeID:
        """The node's id."""
        return NodeID(context.facts.node_id)

    @property
    def worker_id(self) -> WorkerID:
        """The process' id."""
        return WorkerID(context.facts.process_id)

    @property
    @_deprecated("Use get_task_id() instead")
    def task_id(self) -> TaskID | None:
        """The running task's id."""
        _check_worker(AssertionError)
        running = context.current()
        return TaskID(running.task_id) if running is not None else None

    @property
    @_deprecated("Use get_actor_id() instead")
    def actor_id(self) -> ActorID | None:
        """The running actor's id."""
        _check_worker(AssertionError)
        found = context.facts.actor_id
        return ActorID(found) if found is not None else None

    # ------------------------------------------------------------------ environment and resources
    @property
    def namespace(self) -> str:
        """The namespace of named actors here."""
        return context.facts.namespace

    @property
    @_deprecated("")
    def was_current_actor_reconstructed(self) -> bool:
        """Whether this actor was restarted at least once."""
        _check_worker(AssertionError)
        return context.facts.was_reconstructed

    @property
    def should_capture_child_tasks_in_placement_group(self) -> bool:
        """Whether tasks submitted from here go into the same placement group."""
        return context.facts.capture_child_tasks

    @property
    @_deprecated("Use get_placement_group_id() instead")
    def current_placement_group_id(self) -> PlacementGroupID:
        """The placement group that this runs in; the id of nothing outside of one."""
        found = context.facts.placement_group
        return PlacementGroupID(found) if found is not None else PlacementGroupID.nil()

    def get_placement_group_id(self) -> str | None:
        """The same in hexadecimal."""
        found = context.facts.placement_group
        return found.hex() if found is not None else None

    @property
    def current_actor(self) -> ActorHandle[Any]:
        """A handle to the actor that runs here.

        Raises:
            RuntimeError: this is not an actor.
        """
        if context.facts.actor_id is None:
            raise RuntimeError("There is no current actor: this code does not run in one.")
        from sundog.actor import handle_of_current_actor

        return handle_of_current_actor()

    @property
    def gcs_address(self) -> str:
        """Where the session is."""
        return str(context.facts.session.get("path", ""))

    @property
    def runtime_env(self) -> RuntimeEnv:
        """The runtime environment of this process."""
        from sundog.runtime_env import RuntimeEnv

        return RuntimeEnv(_validate=False, **context.facts.runtime_env)

    def get_runtime_env_string(self) -> str:
        """The same as JSON."""
        import json

        return json.dumps(context.facts.runtime_env, sort_keys=True, default=str)

    def get_assigned_resources(self) -> dict[str, float]:
        """The logical resources of the running task or actor.

        Raises:
            AssertionError: this is a driver, which holds none.
        """
        _check_worker(AssertionError)
        return dict(context.facts.resources)

    @_deprecated("Use get_accelerator_ids() instead")
    def get_resource_ids(self) -> dict[str, list[str]]:
        """Ids of the assigned accelerators by kind."""
        return self.get_accelerator_ids()

    def get_accelerator_ids(self) -> dict[str, list[str]]:
        """Ids of the assigned accelerators by kind."""
        held = context.facts.accelerators
        return {kind: [str(each) for each in held.get(kind, ())] for kind in KINDS}

    def get_session_name(self) -> str:
        """The session's name."""
        return str(context.facts.session.get("name", ""))

    def get_node_labels(self) -> dict[str, str]:
        """The labels of this node."""
        engine = engines.current()
        if engine is None:
            return {}
        rows = engine.owner.control.request(Nodes())
        mine = self.get_node_id()
        return next((dict(row["Labels"]) for row in rows if row["NodeID"] == mine), {})

    def is_cancelled(self) -> bool:
        """Whether the running task was asked to stop.

        Raises:
            RuntimeError: in a driver, and in an asyncio actor, whose calls get an asyncio.CancelledError instead.
        """
        engine = engines.current()
        if engine is None or engine.executor is None:
            raise RuntimeError("is_canceled() tells about the running task, and no task runs in a driver.")
        if engine.executor.cancel_wins:
            raise RuntimeError(
                "is_canceled() does not work in calls of an asyncio actor: there a cancelled call gets an "
                "asyncio.CancelledError at its next await."
            )
        running = context.current()
        return running is not None and running.task_id in engine.executor.cancelled

    is_canceled = is_cancelled

    def get_temp_dir(self) -> str:
        """The folder below which sessions live."""
        return os.path.dirname(str(context.facts.session.get("path", "")))

    @_deprecated("Use the get_…_id() methods instead")
    def get(self) -> dict[str, object]:
        """The ids in one dict."""
        facts, running = context.facts, context.current()
        out: dict[str, object] = {
            "job_id": JobID(facts.job_id),
            "node_id": NodeID(facts.node_id),
            "namespace": self.namespace,
        }
        if running is not None:
            out["task_id"] = TaskID(running.task_id)
        if facts.actor_id is not None:
            out["actor_id"] = ActorID(facts.actor_id)
        return out


_context = RuntimeContext()


def get_runtime_context() -> RuntimeContext:
    """The context of the running code. Starts a session if there is none."""
    if engines.current() is None:
        if (other := engines.elsewhere(start=True)) is not None:
            theirs: RuntimeContext = other.runtime_context()
            return theirs
        from sundog.api import engine_or_init

        engine_or_init()
    return _context


def _check_worker(kind: type[Exception]) -> None:
    if context.facts.mode != "worker":
        raise kind("Only a task or an actor has this, and this process is a driver.")


def _function_name() -> str | None:
    """The function that runs, as ``module.name``: found in the frame that called it, so that no task pays for it."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        home = frame.f_globals.get("__name__")
        if home == "sundog.worker.executor" and "function" in frame.f_locals:
            return _full_name(frame.f_locals["function"])
        if home == "sundog.worker.actor_life" and isinstance(frame.f_locals.get("cls"), type):
            return _full_name(frame.f_locals["cls"].__init__, frame.f_locals["cls"])
        frame = frame.f_back
    actor = getattr(getattr(engines.current(), "executor", None), "actor", None)
    running = context.current()
    if actor is None or running is None:
        return None
    # A coroutine of an asyncio actor, called by its loop. Ray gives its qualified name.
    return f"{type(actor).__module__}.{getattr(getattr(type(actor), running.name, None), '__qualname__', running.name)}"


def _full_name(function: object, cls: type | None = None) -> str | None:
    owner = cls or (type(function.__self__) if hasattr(function, "__self__") else None)
    name = getattr(function, "__name__", None)
    if name is None:
        return None
    module = owner.__module__ if owner is not None else function.__module__
    if module == "__main__":
        # As in Ray: the program's file names the module.
        code = getattr(_unwrapped(function), "__code__", None)
        module = os.path.splitext(os.path.basename(code.co_filename))[0] if code is not None else module
    return ".".join([module, *([owner.__name__] if owner is not None else []), name])


def _unwrapped(function: object) -> object:
    """The function behind its wrappers and its binding to an instance."""
    function = getattr(function, "__func__", function)
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function
