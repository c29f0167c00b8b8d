"""Faults of what is asked for: tasks and actors that hold CPUs which they do not use. Pure but for the source files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from sundog.advice.findings import Draft
from sundog.advice.findings_tasks import asked_site
from sundog.advice.run import CALL, CREATE, TASK, Run, RunNode, with_
from sundog.advice.source import Sources

_LEAST_TASKS = 3
_MOST_LOAD = 1.1  # cores that a task of one thread may seem to use: two clocks are read one after the other
_MOST_BUSY = 0.25  # of its life, that an actor works at most if its CPU can be given to others
_LEAST_WAIT_S = 0.02  # that others must have waited for a CPU


def cpus_unused(run: Run, sources: Sources) -> Iterator[Draft]:
    """CPUs that are reserved and not used, while other work waits for a CPU."""
    yield from _of_tasks(run, sources)
    yield from _of_actors(run, sources)


def _of_tasks(run: Run, sources: Sources) -> Iterator[Draft]:
    groups: dict[tuple[str, str], list[RunNode]] = defaultdict(list)
    for node in run.nodes:
        if node.kind == TASK and node.count == 1 and node.resources.get("CPU", 0.0) > 1.0:
            groups[node.name, node.site].append(node)
    for (name, site), group in groups.items():
        if len(group) < _LEAST_TASKS or run.threads.get(name, 0):
            continue
        asked = min(node.resources["CPU"] for node in group)
        used = max(node.load for node in group)
        if used > _MOST_LOAD:
            continue
        slim = [with_(node, resources={**node.resources, "CPU": 1.0}) for node in group]
        yield Draft(
            "cpus-unused",
            f"{name} asks for {asked:g} CPUs and uses one at most",
            asked_site(sources, name, site, "num_cpus"),
            len(group),
            sum(node.start_s - node.submit_s for node in group),
            f"{len(group)} tasks used {used:.2f} of a core at most; {int(run.cpus // asked)} run at a time on "
            f"{run.cpus:g} CPUs",
            f"Let {name} ask for one CPU: num_cpus=1, the default. If the CPUs are to bound its memory, say so: "
            "memory=... bytes.",
            run.changed(slim),
            sites=frozenset({site}),
        )


def _of_actors(run: Run, sources: Sources) -> Iterator[Draft]:
    busy: dict[bytes, float] = defaultdict(float)
    for node in run.nodes:
        if node.kind == CALL:
            busy[node.actor] += node.work_s
    classes: dict[tuple[str, str], list[RunNode]] = defaultdict(list)
    for node in run.nodes:
        if node.kind == CREATE and node.resources.get("CPU", 0.0) > 0:
            classes[node.name.removesuffix(".__init__"), node.site].append(node)
    for (name, site), actors in classes.items():
        life = sum(max(1e-9, run.length_s - node.end_s) for node in actors)
        worked = sum(busy[node.actor] for node in actors)
        if worked > _MOST_BUSY * life:
            continue
        held = sum(node.resources["CPU"] for node in actors)
        waited = _waited(run, min(node.start_s for node in actors))
        if waited < _LEAST_WAIT_S:
            continue
        yield Draft(
            "cpus-unused",
            f"{len(actors)} {name} keep{'s' * (len(actors) == 1)} {held:g} of {run.cpus:g} CPUs, and work"
            f"{'s' * (len(actors) == 1)} {worked / life:.0%} of the time",
            asked_site(sources, name, site, "num_cpus"),
            len(actors),
            max(0.0, life - worked),
            f"the calls took {worked:.2f} s in all; meanwhile tasks waited {waited:.2f} s for a CPU, added up",
            f"Let {name} ask for no CPU, as an actor does by default: num_cpus=0.",
            run.changed(
                with_(node, resources={key: each for key, each in node.resources.items() if key != "CPU"})
                for node in actors
            ),
            sites=frozenset({site}),
        )


def _waited(run: Run, since: float) -> float:
    """How long tasks and actors that ask for a CPU waited for it, from a moment on."""
    return sum(
        max(0.0, node.start_s - max(node.submit_s, since) - node.lag_s)
        for node in run.nodes
        if node.kind in (TASK, CREATE) and node.resources.get("CPU") and not node.deps
    )
