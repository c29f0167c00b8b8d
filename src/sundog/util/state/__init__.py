"""What the session is doing: tasks, actors, objects, workers, nodes, jobs, placement groups.

Owns names only; `api.py` asks and filters, `schema.py` says what a row holds.
"""

from __future__ import annotations

from sundog.util.state.api import (
    get_actor,
    get_job,
    get_node,
    get_objects,
    get_placement_group,
    get_task,
    get_worker,
    list_actors,
    list_cluster_events,
    list_jobs,
    list_nodes,
    list_objects,
    list_placement_groups,
    list_runtime_envs,
    list_tasks,
    list_workers,
)
from sundog.util.state.client import StateApiClient
from sundog.util.state.logs import get_log, list_logs
from sundog.util.state.summary import summarize_actors, summarize_objects, summarize_tasks

__all__ = [
    "StateApiClient",
    "get_actor",
    "get_job",
    "get_log",
    "get_node",
    "get_objects",
    "get_placement_group",
    "get_task",
    "get_worker",
    "list_actors",
    "list_cluster_events",
    "list_jobs",
    "list_logs",
    "list_nodes",
    "list_objects",
    "list_placement_groups",
    "list_runtime_envs",
    "list_tasks",
    "list_workers",
    "summarize_actors",
    "summarize_objects",
    "summarize_tasks",
]
