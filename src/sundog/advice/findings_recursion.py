"""A function that submits itself down to the last step: most of its tasks are then too small. Pure.

::

    ways(17) ─► ways(16) ─► … ─► ways(1)     one task for each step
    ways(17) ─► ways(16) ─► ways(13)         from here on a plain function: the subtree is one task
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from sundog.advice.findings import Draft
from sundog.advice.findings_tasks import MANY, SHARE, SMALL_S, time_text
from sundog.advice.run import SUBMIT, TASK, WAIT, Run, RunNode, with_
from sundog.advice.source import Sources

_ENOUGH_S = 0.02  # a subtree that works this long is worth a task of its own


def small_recursion(run: Run, sources: Sources) -> Iterator[Draft]:
    """Tasks that submit tasks of their own function, each with less work than it takes to send it."""
    children = _children(run)
    for name, group in _recursive(run, children).items():
        works = {node.key: _own_work_s(run, node) for node in group}
        work = sum(works.values())
        count = sum(node.count for node in group)
        if count < MANY or work / count > SMALL_S:
            continue
        took = max(node.end_s for node in group) - min(node.submit_s for node in group)
        workers = len({node.process for node in group})
        if took * min(workers, run.cores) - work < SHARE * work:
            continue
        cut, removed = _cut(group, works, children)
        if not cut or _is_needed(run, {node.key for node in cut}, removed):
            continue
        nested = {each for node in group for each in children.get(node.key, ()) if each in works}
        site = Counter(run.nodes[key].site for key in nested).most_common(1)[0][0]
        yield Draft(
            "tasks-too-small",
            f"tasks too small: {name} calls itself, works {time_text(work / count)}, "
            f"and costs {time_text(took / count)}",
            site,
            count,
            max(0.0, took - work / max(1, min(workers, run.cores))),
            f"{count} calls took {took:.2f} s, of which {work:.2f} s were work of {name} itself, in {workers} workers",
            f"Let {name} compute small cases with a plain function, and submit tasks for large ones alone: "
            f"{len(removed)} of the {count} tasks are not needed if each task works about {_ENOUGH_S * 1e3:.0f} ms.",
            run.changed(cut),
        )


def _children(run: Run) -> dict[int, list[int]]:
    """The tasks that each task has submitted."""
    return {
        node.key: [op.node for op in node.program if op.kind == SUBMIT]
        for node in run.nodes
        if node.program is not None
    }


def _recursive(run: Run, children: dict[int, list[int]]) -> dict[str, list[RunNode]]:
    """The tasks of each function that has submitted itself."""
    own: set[str] = {
        run.nodes[key].name
        for key, below in children.items()
        if run.nodes[key].kind == TASK and any(run.nodes[each].name == run.nodes[key].name for each in below)
    }
    found: dict[str, list[RunNode]] = defaultdict(list)
    for node in run.nodes:
        if node.kind == TASK and node.name in own:
            found[node.name].append(node)
    return found


def _own_work_s(run: Run, node: RunNode) -> float:
    """What a task worked, without what the runtime took for its submissions and gets."""
    submissions = sum(op.kind == SUBMIT for op in node.program or ())
    return max(0.0, node.work_s - submissions * run.costs.submit_s)


def _cut(
    group: list[RunNode], works: dict[int, float], children: dict[int, list[int]]
) -> tuple[list[RunNode], set[int]]:
    """The largest subtrees that work no longer than a task should, each as one task; and the tasks that go."""
    below = {key: [each for each in children.get(key, ()) if each in works] for key in works}
    totals: dict[int, float] = {}
    # A child is submitted after its parent, so from the last submission on, children come first.
    for node in sorted(group, key=lambda each: each.submit_s, reverse=True):
        totals[node.key] = works[node.key] + sum(totals.get(each, 0.0) for each in below[node.key])
    cut: list[RunNode] = []
    removed: set[int] = set()
    for node in sorted(group, key=lambda each: each.submit_s):
        if node.key in removed:
            removed.update(below[node.key])
        elif (
            totals[node.key] <= _ENOUGH_S
            and below[node.key]
            and len(below[node.key]) == len(children[node.key])
        ):
            removed.update(below[node.key])
            total = totals[node.key]
            cut.append(with_(node, program=None, work_s=total, cpu_s=total * min(1.0, node.load or 1.0)))
    return cut, removed


def _is_needed(run: Run, cut: set[int], removed: set[int]) -> bool:
    """Whether a task that stays waits for one that goes, as a ref that a task returns may be waited for elsewhere."""
    for node in run.nodes:
        if node.key not in removed and removed.intersection(node.deps):
            return True
    for owner, ops in run.owners():
        if isinstance(owner, RunNode) and (owner.key in removed or owner.key in cut):
            continue
        if any(op.kind == WAIT and removed.intersection(op.nodes) for op in ops):
            return True
    return False
