"""`get_runtime_context()`: what the running code can ask about itself."""

from __future__ import annotations

import os
from typing import Any

from sundog import engines
from sundog.owner import context
from sundog.public_ids import ActorID, JobID, NodeID, PlacementGroupID, TaskID, WorkerID


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
            return None
        data = context.facts.actor_handle or {}
        if running.name in data.get("signatures", ()):
            return f"{context.facts.actor_class}.{running.name}"
        return running.name

    def get_task_function_name(self) -> str | None:
        """The running function's qualified name."""
        return self.get_task_name()

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
    def job_id(self) -> JobID:
        """The job's id."""
        return JobID(context.facts.job_id)

    @property
    def node_id(self) -> NodeID:
        """The node's id."""
        return NodeID(context.facts.node_id)

    @property
    def worker_id(self) -> WorkerID:
        """The process' id."""
        return WorkerID(context.facts.process_id)

    @property
    def task_id(self) -> TaskID | None:
        """The running task's id."""
        running = context.current()
        return TaskID(running.task_id) if running is not None else None

    @property
    def actor_id(self) -> ActorID | None:
        """The running actor's id."""
        found = context.facts.actor_id
        return ActorID(found) if found is not None else None

    # ------------------------------------------------------------------ the rest
    @property
    def namespace(self) -> str:
        """The namespace of named actors here."""
        return context.facts.namespace

    @property
    def was_current_actor_reconstructed(self) -> bool:
        """Whether this actor was restarted at least once."""
        return context.facts.was_reconstructed

    @property
    def should_capture_child_tasks_in_placement_group(self) -> bool:
        """Whether tasks submitted from here go into the same placement group."""
        return context.facts.capture_child_tasks

    @property
    def current_placement_group_id(self) -> PlacementGroupID | None:
        """The placement group that this runs in."""
        found = context.facts.placement_group
        return PlacementGroupID(found) if found is not None else None

    def get_placement_group_id(self) -> str | None:
        """The same in hexadecimal."""
        found = context.facts.placement_group
        return found.hex() if found is not None else None

    @property
    def current_actor(self) -> Any:
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
    def runtime_env(self) -> Any:
        """The runtime environment of this process."""
        from sundog.runtime_env import RuntimeEnv

        return RuntimeEnv(_validate=False, **context.facts.runtime_env)

    def get_runtime_env_string(self) -> str:
        """The same as JSON."""
        import json

        return json.dumps(context.facts.runtime_env, sort_keys=True, default=str)

    def get_assigned_resources(self) -> dict[str, float]:
        """The logical resources of the running task or actor."""
        return dict(context.facts.resources)

    def get_resource_ids(self) -> dict[str, list[str]]:
        """Ids of the assigned accelerators by kind."""
        return self.get_accelerator_ids()

    def get_accelerator_ids(self) -> dict[str, list[str]]:
        """Ids of the assigned accelerators by kind."""
        return {"GPU": [str(each) for each in context.facts.gpu_ids]}

    def get_session_name(self) -> str:
        """The session's name."""
        return str(context.facts.session.get("name", ""))

    def get_node_labels(self) -> dict[str, str]:
        """The labels of this node."""
        engine = engines.current()
        if engine is None:
            return {}
        rows = engine.owner.control.request("nodes")
        return dict(rows[0]["Labels"])

    def is_cancelled(self) -> bool:
        """Whether the running task was asked to stop."""
        running = context.current()
        engine = engines.current()
        if running is None or engine is None or engine.executor is None:
            return False
        return running.task_id in engine.executor.cancelled

    is_canceled = is_cancelled

    def get_temp_dir(self) -> str:
        """The folder below which sessions live."""
        return os.path.dirname(str(context.facts.session.get("path", "")))

    def get(self) -> dict[str, Any]:
        """The ids in one dict."""
        out: dict[str, Any] = {"job_id": self.job_id, "node_id": self.node_id, "namespace": self.namespace}
        if self.task_id is not None:
            out["task_id"] = self.task_id
        if self.actor_id is not None:
            out["actor_id"] = self.actor_id
        return out


_context = RuntimeContext()


def get_runtime_context() -> RuntimeContext:
    """The context of the running code."""
    return _context
