"""`summarize_*`: counts over all rows of a kind. Pure functions over what `api.ask` gives."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from sundog.util.state import questions
from sundog.util.state.api import DEFAULT_RPC_TIMEOUT
from sundog.util.state.questions import Rows, ask, ask_usage

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypedDict

    from sundog.observe.usage import FunctionFigures
    from sundog.plain import JsonObject

    class ObjectGroup(TypedDict):
        """Objects that were made at one place."""

        total_objects: int
        total_size_mb: float
        total_num_workers: int
        total_num_nodes: int
        task_state_counts: dict[str, int]
        task_attempt_number_counts: dict[str, int]
        ref_type_counts: dict[str, int]


MIB = 1024**2


def _cluster(summary: JsonObject) -> dict[str, JsonObject]:
    # One entry for the whole session, in Ray's form, which has room for one entry per node.
    return {"cluster": summary}


def count_tasks(rows: Rows, usage: Mapping[str, FunctionFigures] | None = None) -> JsonObject:
    """Count tasks by name and state; what is known of a function's `usage` stands beside its counts."""
    by_name: dict[str, dict[str, object]] = {}
    states: defaultdict[str, Counter[str]] = defaultdict(Counter)
    types: Counter[str] = Counter()
    for row in rows:
        name = row.get("name") or row.get("func_or_class_name") or ""
        by_name.setdefault(name, {"func_or_class_name": name, "type": row["type"]})
        states[name][row["state"]] += row.get("count", 1)
        types[row["type"]] += row.get("count", 1)
    known = usage or {}
    return {
        "summary": {
            name: {**entry, "state_counts": dict(states[name])}
            | ({"usage": known[name]} if name in known else {})
            for name, entry in by_name.items()
        },
        "total_tasks": types["NORMAL_TASK"],
        "total_actor_tasks": types["ACTOR_TASK"],
        "total_actor_scheduled": types["ACTOR_CREATION_TASK"],
        "summary_by": "func_name",
    }


def count_actors(rows: Rows, usage: Mapping[str, FunctionFigures] | None = None) -> JsonObject:
    """Count actors by class and state; what is known of a class's `usage` stands beside its counts."""
    states: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        states[row["class_name"]][row["state"]] += 1
    known = usage or {}
    summary: dict[str, object] = {}
    for name, found in states.items():
        own = name.rpartition(".")[2]  # records have the class without the scopes around it
        usage_of = {"usage": known[own]} if own in known else {}
        summary[name] = {"class_name": name, "state_counts": dict(found)} | usage_of
    return {"summary": summary, "total_actors": len(rows), "summary_by": "class"}


def count_objects(rows: Rows) -> JsonObject:
    """Count and measure objects by the place in the program that made them."""
    groups: defaultdict[str, Rows] = defaultdict(list)
    for row in rows:
        groups[row["call_site"]].append(row)
    summary = {place: _object_group(found) for place, found in groups.items()}
    return {
        "summary": summary,
        "total_objects": len(rows),
        "total_size_mb": sum(entry["total_size_mb"] for entry in summary.values()),
        "callsite_enabled": "disabled" not in groups,
        "summary_by": "callsite",
    }


def _object_group(rows: Rows) -> ObjectGroup:
    return {
        "total_objects": len(rows),
        # -1 stands for a size that is not known yet.
        "total_size_mb": sum(max(0, row["object_size"]) for row in rows) / MIB,
        "total_num_workers": len({row["pid"] for row in rows}),
        "total_num_nodes": len({row["ip"] for row in rows}),
        "task_state_counts": dict(Counter(row["task_status"] for row in rows)),
        "task_attempt_number_counts": dict(Counter(str(row["attempt_number"]) for row in rows)),
        "ref_type_counts": dict(Counter(row["reference_type"] for row in rows)),
    }


def summarize_tasks(
    address: str | None = None,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> dict[str, JsonObject]:
    """Count the session's tasks by function name and state, under the key "cluster".

    Each function's entry has its `usage`: how many attempts ended, failed and were lost with their process, and
    mean, p95 and max of `duration_s`, `cpu_s` and `peak_memory` (bytes of its own, without shared segments).
    """
    return _cluster(
        count_tasks(questions.count_tasks(address, raise_on_missing_output), ask_usage(address)["functions"])
    )


def summarize_actors(
    address: str | None = None,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> dict[str, JsonObject]:
    """Count the session's actors by class and state, under the key "cluster".

    A class's `usage` is that of all its methods and its constructor, in the form of `summarize_tasks`.
    """
    return _cluster(
        count_actors(ask("actors", False, address, raise_on_missing_output), ask_usage(address)["classes"])
    )


def summarize_objects(
    address: str | None = None,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> dict[str, JsonObject]:
    """Count and measure the session's objects by call site, under the key "cluster"."""
    return _cluster(count_objects(ask("objects", False, address, raise_on_missing_output)))
