"""Faults of actors: one actor that all work goes through, or several of which one does most of the work. Pure."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from sundog.advice.findings import LEAST_SHARE, Draft
from sundog.advice.run import CALL, CREATE, SUBMIT, Op, Run, RunNode, op_with, with_
from sundog.advice.source import Sources

_LEAST_CALLS = 3
_LEAST_QUEUED = 0.5  # calls must wait on average at least this share of a call's length
_LEAST_BUSY = 0.1  # share of the run
_A_LITTLE = 0.25  # share of a core
_UNBALANCED = 1.3
_STATEFUL_SHARE = 0.2  # of the run, that sharing the calls of an actor which changes itself has to gain
_LEAST_MADE = 6  # actors of a class
_MADE_AGAIN = 3  # times as many as there were at a time
_FEW_CALLS = 2  # of each


def one_actor(run: Run, sources: Sources) -> Iterator[Draft]:
    """Calls stand in line for one actor while cores have nothing to do."""
    for actor, calls in _calls(run).items():
        if actor in run.concurrent or len(calls) < _LEAST_CALLS:
            continue
        busy = sum(node.work_s for node in calls)
        name = calls[0].name.rpartition(".")[0] or calls[0].name
        created = next((node for node in run.nodes if node.kind == CREATE and node.actor == actor), None)
        alike = [node for node in run.nodes if node.kind == CREATE and created and node.name == created.name]
        if created is None or len(alike) > 1:
            continue  # several actors of one class: see `unbalanced_actors`
        queued = sum(max(0.0, node.start_s - max(node.submit_s, created.end_s)) for node in calls)
        if queued < _LEAST_QUEUED * busy or busy < _LEAST_BUSY * run.length_s:
            continue
        count = _how_many(run, calls)
        if count < 2:
            continue
        site = created.site or calls[0].site
        changes = _changes_itself(sources, calls[0])
        words = (
            f"Make {count} actors and share the calls among them: actors = [{name}.remote() for _ in range({count})]; "
            "sundog.util.ActorPool does the sharing."
        )
        if changes:
            words += f" {changes} changes the actor's state: give each actor a part of the data, and add up at the end."
        yield Draft(
            "one-actor",
            f"one actor does all the work: {name}",
            site,
            len(calls),
            busy,
            f"{len(calls)} calls ran one after the other for {busy:.2f} s (submitted at {_short(calls[0].site)}); each "
            f"waited {queued / len(calls):.2f} s for its turn on average",
            words,
            _shared(run, created, calls, count),
            # What an actor keeps cannot always be shared among several: that has to be worth it.
            least_share=_STATEFUL_SHARE if changes else LEAST_SHARE,
            sites=frozenset(node.site for node in calls),
        )


def _how_many(run: Run, calls: Sequence[RunNode]) -> int:
    """How many actors could share the calls: as many as CPUs, cores if they compute, and calls at a time."""
    cpu = sum(node.cpu_s for node in calls) / max(1e-9, sum(node.work_s for node in calls))
    # One core may be measured as slightly more: processor time and wall time are read one after the other.
    room = run.cores / cpu + _A_LITTLE if cpu > 0.5 else max(run.cpus, run.cores)
    return int(max(1, min(len(calls), max(run.cpus, run.cores), room)))


def _calls(run: Run) -> dict[bytes, list[RunNode]]:
    found: dict[bytes, list[RunNode]] = defaultdict(list)
    for node in run.nodes:
        if node.kind == CALL and node.actor:
            found[node.actor].append(node)
    for calls in found.values():
        calls.sort(key=lambda node: node.submit_s)
    return found


def _shared(run: Run, created: RunNode, calls: Sequence[RunNode], count: int) -> Run:
    """The run with several actors in the place of one, each with its share of the calls."""
    first = len(run.nodes)
    copies = [
        with_(created, key=first + number, actor=created.actor + bytes([number % 256]), lag_s=-1.0)
        for number in range(count - 1)
    ]
    ids = [created.actor, *(each.actor for each in copies)]
    moved = [with_(node, actor=ids[position % count]) for position, node in enumerate(calls)]
    changed = run.changed(moved, added=copies)

    def make_all(ops: list[Op]) -> list[Op]:
        out: list[Op] = []
        for op in ops:
            out.append(op)
            if op.kind == SUBMIT and op.node == created.key:
                out += [op_with(op, node=each.key) for each in copies]
        return out

    return changed.with_each_program(make_all)


def _changes_itself(sources: Sources, call: RunNode) -> str:
    """The name of the method if it assigns to attributes of self; "" if not, or not known."""
    found = sources.at(call.site)
    definition = found[0].definition(call.name) if found is not None else None
    if definition is None:
        return ""
    for node in ast.walk(definition):
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        while isinstance(target, ast.Attribute | ast.Subscript):
            target = target.value
        if (
            isinstance(node, ast.Assign | ast.AugAssign)
            and isinstance(target, ast.Name)
            and target.id == "self"
        ):
            return call.name
    return ""


def shared_by_alike(run: Run, keys: set[int]) -> Run:
    """The run in which calls are shared among all actors that were made at the same line, as a pool of them does."""
    made: dict[tuple[str, str], list[bytes]] = defaultdict(list)
    alike: dict[bytes, list[bytes]] = {}
    for node in run.nodes:
        if node.kind == CREATE:
            own = made[node.name, node.site]
            own.append(node.actor)
            alike[node.actor] = own
    calls = [run.nodes[key] for key in sorted(keys) if run.nodes[key].kind == CALL]
    moved = []
    for position, node in enumerate(calls):
        actors = alike.get(node.actor, [])
        if len(actors) > 1:
            moved.append(with_(node, actor=actors[position % len(actors)]))
    return run.changed(moved)


def unbalanced_actors(run: Run, sources: Sources) -> Iterator[Draft]:
    """Several actors of one class, of which one gets most of the work."""
    calls = _calls(run)
    classes: dict[str, list[RunNode]] = defaultdict(list)
    for node in run.nodes:
        if node.kind == CREATE and node.actor not in run.concurrent:
            classes[node.name].append(node)
    for name, actors in classes.items():
        if len(actors) < 2:
            continue
        busy = {each.actor: sum(node.work_s for node in calls.get(each.actor, ())) for each in actors}
        mean = sum(busy.values()) / len(busy)
        worst = max(busy, key=lambda each: busy[each])
        its = calls.get(worst, [])
        if mean <= 0 or busy[worst] < _UNBALANCED * mean or len(its) < 2:
            continue
        everything = sorted(
            (node for each in actors for node in calls.get(each.actor, ())), key=lambda node: node.submit_s
        )
        loads = dict.fromkeys((each.actor for each in actors), 0.0)
        moved = []
        for node in everything:
            least = min(loads, key=lambda each: loads[each])
            loads[least] += node.work_s
            moved.append(with_(node, actor=least))
        sites: dict[str, float] = defaultdict(float)
        for node in its:
            sites[node.site] += node.work_s
        short = name.removesuffix(".__init__")
        yield Draft(
            "unbalanced-actors",
            f"unbalanced actors: one of {len(actors)} {short} does {busy[worst] / sum(busy.values()):.0%} of the work",
            max(sites, key=lambda each: sites[each]),
            len(its),
            busy[worst] - mean,
            f"the busiest worked {busy[worst]:.2f} s, the mean is {mean:.2f} s",
            "Give each call to an actor that is free: sundog.util.ActorPool(actors).map_unordered(...).",
            run.changed(moved),
            sites=frozenset(node.site for node in everything),
        )


def actor_per_item(run: Run, sources: Sources) -> Iterator[Draft]:
    """Actors of one class are made, called once or twice and dropped, again and again: a few would do."""
    calls = _calls(run)
    classes: dict[tuple[str, str], list[RunNode]] = defaultdict(list)
    for node in run.nodes:
        if node.kind == CREATE and node.count == 1 and node.actor not in run.replicas:
            classes[node.name, node.site].append(node)
    for (name, site), actors in classes.items():
        ends = {
            each.actor: max((node.end_s for node in calls.get(each.actor, ())), default=-1.0)
            for each in actors
        }
        at_a_time = _most_at_a_time([(each.submit_s, max(each.end_s, ends[each.actor])) for each in actors])
        count = max(1, min(at_a_time, int(max(run.cpus, run.cores))))
        if len(actors) < _MADE_AGAIN * count or len(actors) < _LEAST_MADE:
            continue
        own = [node for each in actors for node in calls.get(each.actor, ())]
        is_together = (
            len(actors) < _MADE_AGAIN * at_a_time
        )  # all are there at a time: what each made may be its own
        made = sum(each.end_s - each.submit_s - (each.work_s if is_together else 0.0) for each in actors)
        worked = sum(node.work_s for node in own)
        most = len(actors) * (1 if is_together else _FEW_CALLS)
        if not own or len(own) > most or made < worked:
            continue
        short = name.removesuffix(".__init__")
        yield Draft(
            "actor-per-item",
            f"an actor for each item: {len(actors)} {short} were made for {len(own)} calls",
            site,
            len(actors),
            made,
            f"to make them took {made:.2f} s, added up, their calls {worked:.2f} s; {at_a_time} were there at a time",
            f"Make {count} of them once and use them again: sundog.util.ActorPool([{short}.remote() for _ in "
            f"range({count})]). If an actor keeps nothing between calls, a task does.",
            _kept(run, actors, calls, count, is_together=is_together),
            sites=frozenset({site, *(node.site for node in own)}),
        )


def _most_at_a_time(lives: Sequence[tuple[float, float]]) -> int:
    changes = sorted([(begin, 1) for begin, _ in lives] + [(end, -1) for _, end in lives])
    return max(accumulate(change for _, change in changes), default=0)


def _kept(
    run: Run,
    actors: Sequence[RunNode],
    calls: Mapping[bytes, list[RunNode]],
    count: int,
    *,
    is_together: bool,
) -> Run:
    """The run in which the first actors serve the calls of those that were made later.

    `is_together`: each call then does also what the constructor of its actor did.
    """
    order = sorted(actors, key=lambda node: node.submit_s)
    gone = {node.key for node in order[count:]}
    moved = [
        with_(
            node,
            actor=order[position % count].actor,
            lag_s=min(node.lag_s, run.costs.idle_s),
            work_s=node.work_s + (each.work_s if is_together else 0.0),
            cpu_s=node.cpu_s + (each.cpu_s if is_together else 0.0),
        )
        for position, each in enumerate(order)
        if each.key in gone
        for node in calls.get(each.actor, ())
    ]

    def without(ops: list[Op]) -> list[Op]:
        return [op for op in ops if not (op.kind == SUBMIT and op.node in gone)]

    return run.changed(moved).with_each_program(without)


def _short(site: str) -> str:
    return site.rpartition("/")[2] or "?"
