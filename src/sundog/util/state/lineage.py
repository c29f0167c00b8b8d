"""Tasks as a tree: which task submitted which, with equal siblings folded into groups.

Owns the shape of the tree that a summary by lineage shows: a task stands below the task that submitted it; calls and
the creation of an actor stand below the actor, and the actor below the task that created it. Pure: rows in, a tree
out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from sundog.plain import JsonObject

DRIVER_TASK_ID_PREFIX = "f" * 40
_OF_ACTORS = ("ACTOR_TASK", "ACTOR_CREATION_TASK")
_RUNNING = ("RUNNING", "RUNNING_IN_RAY_GET", "RUNNING_IN_RAY_WAIT")
_PENDING = (
    "PENDING_ARGS_AVAIL",
    "PENDING_NODE_ASSIGNMENT",
    "PENDING_OBJ_STORE_MEM_AVAIL",
    "PENDING_ARGS_FETCH",
)

Row = JsonObject


@dataclass
class Link:
    """Where more is to be found: the kind of a thing, and its id."""

    type: str
    id: str


@dataclass
class NestedTaskSummary:
    """A task, an actor ("ACTOR") or several siblings of one name ("GROUP"), with what stands below."""

    name: str
    key: str
    type: str
    timestamp: int | None = None
    state_counts: dict[str, int] = field(default_factory=dict)
    children: list[NestedTaskSummary] = field(default_factory=list)
    link: Link | None = None


def tree_of(tasks: Iterable[Row], actors: Iterable[Row]) -> list[NestedTaskSummary]:
    """The roots of the tree; what stands below a task that no row is known of is left out."""
    tree = _Tree(list(tasks), {actor["actor_id"]: actor for actor in actors})
    for row in tree.rows:
        counts = tree.task(row["task_id"]).state_counts  # type: ignore[union-attr]
        counts[row["state"]] = counts.get(row["state"], 0) + 1
    return _in_order([_totalled(each) for each in _folded(tree.roots)])


class _Tree:
    def __init__(self, rows: list[Row], actors: dict[str, Row]) -> None:
        self.rows = rows
        self.actors = actors
        self.by_id = {row["task_id"]: row for row in rows}
        self.creations = {row["actor_id"]: row for row in rows if row["type"] == "ACTOR_CREATION_TASK"}
        self.made: dict[str, NestedTaskSummary] = {}
        self.roots: list[NestedTaskSummary] = []

    def task(self, task_id: str) -> NestedTaskSummary | None:
        """The node of a task, put in its place on first use; None if there is no row of it."""
        row = self.by_id.get(task_id)
        if row is None:
            return None
        if task_id not in self.made:
            name = row.get("name") or row.get("func_or_class_name") or ""
            made = NestedTaskSummary(
                name, task_id, row["type"], row["creation_time_ms"], link=Link("task", task_id)
            )
            self.made[task_id] = made
            if row["type"] in _OF_ACTORS:
                above = self.actor(row["actor_id"])
                if above is not None:
                    above.children.append(made)
            else:
                self._place(made, row)
        return self.made[task_id]

    def actor(self, actor_id: str) -> NestedTaskSummary | None:
        """The node of an actor, below the task that created it; None if its creation is not known."""
        key = f"actor:{actor_id}"
        creation = self.creations.get(actor_id)
        if key not in self.made and creation is not None:
            known = self.actors.get(actor_id, {})
            name = known.get("repr_name") or known.get("class_name")
            name = name or creation["func_or_class_name"].partition(".")[0]
            made = NestedTaskSummary(name, key, "ACTOR", link=Link("actor", actor_id))
            self.made[key] = made
            self._place(made, creation)
        return self.made.get(key)

    def _place(self, made: NestedTaskSummary, row: Row) -> None:
        parent = row["parent_task_id"]
        if not parent or parent.startswith(DRIVER_TASK_ID_PREFIX):
            self.roots.append(made)
            return
        above = self.task(parent)
        if above is not None:
            above.children.append(made)


def _folded(siblings: list[NestedTaskSummary]) -> list[NestedTaskSummary]:
    """Siblings with those of one name in a group; each is as old as the oldest thing below it."""
    groups: dict[str, list[NestedTaskSummary]] = {}
    for each in siblings:
        each.children = _folded(each.children)
        each.timestamp = _earliest([each, *each.children])
        groups.setdefault(each.name, []).append(each)
    return [
        found[0]
        if len(found) == 1
        else NestedTaskSummary(name, name, "GROUP", _earliest(found), children=found)
        for name, found in groups.items()
    ]


def _earliest(nodes: Iterable[NestedTaskSummary]) -> int | None:
    return min((each.timestamp for each in nodes if each.timestamp), default=None)


def _totalled(node: NestedTaskSummary) -> NestedTaskSummary:
    counts = Counter(node.state_counts)
    for child in node.children:
        counts.update(_totalled(child).state_counts)
    node.state_counts = dict(counts)
    node.children = _in_order(node.children)
    return node


def _in_order(nodes: list[NestedTaskSummary]) -> list[NestedTaskSummary]:
    """What runs first, then what waits, then what failed; the oldest first, a creation before calls of its time."""

    def rank(node: NestedTaskSummary) -> tuple[object, ...]:
        counts = node.state_counts
        return (
            -sum(counts.get(state, 0) for state in _RUNNING),
            -sum(counts.get(state, 0) for state in _PENDING),
            -counts.get("FAILED", 0),
            node.timestamp or float("inf"),
            node.type != "ACTOR_CREATION_TASK",
        )

    return sorted(nodes, key=rank)
