"""Faults of tasks: too small, too uneven, tried again and again, in too many workers, held back by memory. Pure."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise
from statistics import median

from sundog.advice.costs import GET_SHARE, SUBMIT_MOST_S, warm_ups
from sundog.advice.findings import EVERYWHERE, LEAST_S, LEAST_SHARE, Draft
from sundog.advice.run import CALL, COMPUTE, SUBMIT, TASK, WAIT, Costs, Op, Run, RunNode, op_with, with_
from sundog.advice.simulator import CannotPlay, play
from sundog.advice.source import Sources, place_of
from sundog.advice.turns import loop_at, name_of, turns_need_each_other
from sundog.plain import replaced

MANY = 50
_HUNDREDS = 300
_FEW_SHARE = 0.1  # of the run, that bundling fewer tasks has to gain: the start of workers differs by as much
SMALL_S = 0.005
_TINY_S = 1e-4
_CALL_S = 1.2e-6  # the recorded time of a task that does nothing. Measured on two cores of 2.5 GHz.
_LEAST_LEFT = 0.05
SHARE = 0.5  # the runtime must take at least this share of a small task's time
_STRAGGLER = 2.5
_LEAST_OTHERS = 0.1  # share of the cores used by other programs, from which on they may hold up a task
_ROOM = 1.25
_MUCH = 1 / 3
_PIECES = 8  # for each CPU, of a long task
_BOUND = 2.0  # a task must take so many times its fair share of the CPUs to be worth splitting
_COMPUTES = 0.5  # a task that computes uses at least this share of its cores


def _groups(run: Run) -> dict[tuple[str, str], list[RunNode]]:
    found: dict[tuple[str, str], list[RunNode]] = defaultdict(list)
    for node in run.nodes:
        if node.kind == TASK:
            found[node.name, node.site].append(node)
    return found


def tasks_too_small(run: Run, sources: Sources) -> Iterator[Draft]:
    """Tasks whose own work is less than what it takes to send them."""
    for owner, ops in run.owners():
        own: dict[tuple[str, str], list[int]] = defaultdict(list)
        for op in ops:
            node = run.nodes[op.node] if op.kind == SUBMIT else None
            if node is not None and node.kind in (TASK, CALL) and node.program is None:
                own[node.name, node.site].append(op.node)
        for (name, site), keys in own.items():
            count = sum(run.nodes[key].count for key in keys)
            work = sum(run.nodes[key].work_s for key in keys)
            if count < MANY or work / count > SMALL_S:
                continue
            begin = min(run.nodes[key].submit_s for key in keys)
            end = max(run.nodes[key].end_s for key in keys)
            took = end - begin
            workers = len({run.nodes[key].process for key in keys})
            overhead = took * min(workers, run.cores) - work
            if overhead < SHARE * work or _one_by_one(run, ops, keys, sources):
                continue
            if _own_time(ops, set(keys)) and sum(_gaps_before(ops, set(keys))) > SHARE * took:
                continue  # this time is the program's own work for each task
            bundle = max(
                2, min(count // max(1, int(run.cpus) * 4) or 2, round(0.02 / max(1e-6, work / count)))
            )
            changed = bundled(run, ops, keys, bundle)
            yield Draft(
                "tasks-too-small",
                f"tasks too small: {name} works {time_text(work / count)}, and costs {time_text(took / count)}",
                site,
                count,
                max(0.0, took - work / max(1, min(workers, run.cores))),
                f"{count} calls took {took:.2f} s, of which {work:.2f} s were work of {name} itself, in "
                f"{workers} workers",
                _bundle_words(sources, site, name, bundle),
                run.with_ops(owner, changed[0]).changed(changed[1]),
                least_share=LEAST_SHARE if count >= _HUNDREDS else _FEW_SHARE,
            )


def _one_by_one(run: Run, ops: list[Op], keys: list[int], sources: Sources) -> bool:
    """Whether each call is awaited before the next one is made, and has to be: they cannot be bundled."""
    group = set(keys)
    waits = [op for op in ops if op.kind == WAIT and op.nodes and set(op.nodes) <= group]
    if 2 * sum(op.calls for op in waits) < sum(run.nodes[key].count for key in keys):
        return False
    found = loop_at(sources, waits[0].site)
    is_call = any(run.nodes[key].kind == CALL for key in keys)
    return is_call or (found is not None and found.loop is not None and turns_need_each_other(found))


def _bundle_words(sources: Sources, site: str, name: str, bundle: int) -> str:
    """What to do about tasks that are too small: a Pool has a word for it."""
    found = sources.at(site)
    if found is not None and not found[0].remotes(found[0].on(found[1].line)):
        return f"Let each task have about {bundle} items: chunksize={bundle}."
    return (
        f"Give each call about {bundle} items: a task that loops over a list, "
        f"{name}.remote(items[i:i + {bundle}]) for i in range(0, len(items), {bundle})."
    )


def bundled(run: Run, ops: list[Op], keys: list[int], bundle: int) -> tuple[list[Op], list[RunNode]]:
    """Steps with one submission in the place of `bundle`, and the nodes that do their work."""
    group = set(keys)
    heads: dict[int, int] = {}
    open_: dict[bytes, tuple[int, int]] = {}  # of each actor: the head of its bundle, and the room in it
    for key in keys:
        head, room = open_.get(run.nodes[key].actor, (-1, 0))
        if room <= 0:
            head, room = key, bundle
        heads[key] = head
        open_[run.nodes[key].actor] = (head, room - run.nodes[key].count)
    nodes: dict[int, RunNode] = {}
    own_work = _in_a_loop(run, keys)
    for key, first in heads.items():
        if first not in nodes:
            nodes[first] = with_(run.nodes[first], work_s=0.0, cpu_s=0.0, deps=())
        nodes[first].work_s += own_work.get(key, run.nodes[key].work_s)
        nodes[first].cpu_s += own_work.get(key, run.nodes[key].cpu_s)
    out: list[Op] = []
    between = False
    own_s = _own_time(ops, group)
    for op in ops:
        if op.kind == SUBMIT and op.node in group:
            if heads[op.node] == op.node:
                out.append(op)
            elif out and out[-1].kind == COMPUTE and between:
                # the time of the submission that is not made any more; the program's own work stays
                before = out.pop()
                if own_s:
                    out.append(op_with(before, seconds=min(before.seconds, own_s)))
            between = True
        elif op.kind == WAIT and set(op.nodes) & group:
            nodes_ = tuple(dict.fromkeys(heads.get(each, each) for each in op.nodes))
            if out and out[-1].kind == WAIT and out[-1].nodes == nodes_:
                continue
            out.append(op_with(op, nodes=nodes_, need=0, wake_s=-1.0))
            between = False
        else:
            out.append(op)
    if not any(op.kind == WAIT and group & set(op.nodes) for op in ops):
        # All had ended when the program reached its get, which therefore is not recorded: with the change the
        # program has to wait there.
        last = max(position for position, op in enumerate(out) if op.kind == SUBMIT and op.node in group)
        out.insert(last + 1, Op(WAIT, nodes=tuple(nodes)))
    return _with_fewer_results(run, ops, out, heads), list(nodes.values())


def _in_a_loop(run: Run, keys: list[int]) -> dict[int, float]:
    """What very small tasks that compute take in a loop within one task: their processor time less that of a call.

    Of a task that is done in a microsecond, the recorded time is mostly the worker's own: it begins before the
    arguments are taken and ends behind the result. Empty for other tasks.
    """
    each_s = sorted(run.nodes[key].work_s / run.nodes[key].count for key in keys)
    work, used = sum(run.nodes[key].work_s for key in keys), sum(run.nodes[key].cpu_s for key in keys)
    if each_s[len(each_s) // 2] > _TINY_S or used < _COMPUTES * work:
        return {}
    call_s = min(_CALL_S, each_s[len(each_s) // 20])
    found = {}
    for key in keys:
        node = run.nodes[key]
        took = min(node.work_s, node.cpu_s)
        found[key] = max(_LEAST_LEFT * took, took - call_s * node.count)
    return found


def _with_fewer_results(run: Run, before: list[Op], after: list[Op], heads: Mapping[int, int]) -> list[Op]:
    """Steps with less of the program's own time after submissions, where it now takes one result instead of many."""
    gaps = [
        each.seconds
        for each, op in pairwise(before)
        if op.kind == SUBMIT and op.node in heads and each.kind == COMPUTE
    ]
    fewer = sum(run.nodes[key].count for key, head in heads.items() if key != head)
    left = fewer * GET_SHARE * min(SUBMIT_MOST_S, sum(gaps) / max(1, len(heads)))
    out = list(after)
    last = max(
        (position for position, op in enumerate(after) if op.kind == SUBMIT and op.node in heads), default=0
    )
    for position in range(last + 1, len(out)):
        op = out[position]
        if op.kind == COMPUTE and left > 0:
            out[position] = op_with(op, seconds=max(0.0, op.seconds - left))
            left -= op.seconds
        elif op.kind == SUBMIT:
            break
    return out


def _gaps_before(ops: list[Op], group: set[int]) -> list[float]:
    """The program's time before each submission of a group."""
    return [
        before.seconds
        for before, op in pairwise(ops)
        if op.kind == SUBMIT and op.node in group and before.kind == COMPUTE
    ]


def _own_time(ops: list[Op], group: set[int]) -> float:
    """What the program itself does before each submission; 0 if that is no more than a submission takes."""
    gaps = _gaps_before(ops, group)
    usual = median(gaps) if gaps else 0.0
    return usual - SUBMIT_MOST_S if usual > 2 * SUBMIT_MOST_S else 0.0


def stragglers(run: Run, sources: Sources) -> Iterator[Draft]:
    """A few tasks far longer than the others of their function, for which everything waits at the end."""
    for (name, site), group in _groups(run).items():
        group = [node for node in group if node.count == 1 and node.program is None]
        if len(group) < 4:
            continue
        usual = median(node.work_s for node in group)
        slow = [node for node in group if node.work_s > _STRAGGLER * usual and node.attempts == 1]
        slow = _without_held_up(run, group, slow)
        if not slow or len(slow) > max(1, len(group) // 3) or usual <= 0:
            continue
        longest = max(slow, key=lambda node: node.work_s)
        rounds = _rounds(group)
        alone = sum(_tail(run, own) for own in rounds)
        if alone < max(LEAST_S, LEAST_SHARE * run.length_s):
            continue  # whatever is done about it gains no more than that
        pieces = {node.key: max(2, min(int(run.cpus) * _PIECES, round(node.work_s / usual))) for node in slow}
        first = _long_first(run, slow)
        cut = _cut(run, slow, pieces)
        is_late, bound = _places(run, rounds, slow)
        evidence = (
            f"{len(slow)} of {len(group)} calls of {name} took up to {longest.work_s:.2f} s where {usual:.2f} s is "
            f"usual; for {alone:.2f} s they ran while CPUs had nothing to do"
        )
        title = f"stragglers: {name} takes up to {longest.work_s / usual:.0f} times its usual time"
        words = f"Cut the long ones into pieces of the usual size (the longest into {pieces[longest.key]})."
        change, changed, best = words, cut, None
        if is_late and _gains_much(run, first, cut):
            # Sorting is a smaller change than splitting the work: both are said, and the range of what they give.
            change = "Submit the long ones first: sort the items by size, the largest first. Or, for the most gain: "
            change += words[0].lower() + words[1:]
            changed, best = first, cut
        elif not is_late and not bound:
            continue  # the task is among the first already, and the others fit beside it
        draft = Draft("stragglers", title, site, len(slow), alone, evidence, change, changed, best=best)
        draft.why_range = "the first change alone gives the longer time"
        yield draft


def _without_held_up(run: Run, group: list[RunNode], slow: list[RunNode]) -> list[RunNode]:
    """The long tasks, without those that computed no more than usual: other programs had their core."""
    usual = median(node.cpu_s for node in group)
    if run.others < _LEAST_OTHERS or usual < _COMPUTES * median(node.work_s for node in group):
        return slow
    return [node for node in slow if node.cpu_s > _STRAGGLER * usual]


def _rounds(group: list[RunNode]) -> list[list[RunNode]]:
    """Tasks that ran together. A round ends when all of its tasks have ended before the next is submitted."""
    rounds: list[list[RunNode]] = []
    reach = -1.0
    for node in sorted(group, key=lambda each: each.submit_s):
        if node.submit_s >= reach:
            rounds.append([])
        rounds[-1].append(node)
        reach = max(reach, node.end_s)
    return rounds


def _places(run: Run, rounds: list[list[RunNode]], slow: list[RunNode]) -> tuple[bool, bool]:
    """Whether a long task was submitted late in its round, and whether one takes more than its share of the CPUs."""
    keys = {node.key for node in slow}
    is_late = is_bound = False
    for own in rounds:
        share = sum(node.work_s for node in own) / max(1.0, run.cpus)
        for at, node in enumerate(own):
            if node.key in keys:
                is_late |= at > len(own) / 4
                is_bound |= node.work_s >= _BOUND * share
    return is_late, is_bound


def _gains_much(run: Run, first: Run, cut: Run) -> bool:
    """Whether to submit the long tasks first gains a good part of what it gains to cut them."""
    try:
        now, sorted_, pieces = play(run).length_s, play(first).length_s, play(cut).length_s
    except CannotPlay:
        return False
    return now - sorted_ >= _MUCH * (now - pieces)


def _tail(run: Run, group: list[RunNode]) -> float:
    """Until the end of the group, from when fewer of it ran than there are CPUs and none was left to start."""
    ends = sorted(node.end_s for node in group)
    room = int(min(run.cpus, len(group)))
    return ends[-1] - ends[-room] if room > 1 else 0.0


def _long_first(run: Run, slow: list[RunNode]) -> Run:
    """The run with the long tasks submitted before the others of their group."""
    keys = {node.key for node in slow}
    sites = {node.site for node in slow}

    def change(ops: list[Op]) -> list[Op]:
        places = [p for p, op in enumerate(ops) if op.kind == SUBMIT and run.nodes[op.node].site in sites]
        if not any(ops[place].node in keys for place in places):
            return ops
        order = sorted((ops[place] for place in places), key=lambda op: -run.nodes[op.node].work_s)
        out = list(ops)
        for place, op in zip(places, order):
            out[place] = op
        return out

    return run.with_each_program(change)


def _cut(run: Run, slow: list[RunNode], pieces: dict[int, int]) -> Run:
    added: list[RunNode] = []
    changed: list[RunNode] = []
    parts: dict[int, list[int]] = {}
    for node in slow:
        count = pieces[node.key]
        changed.append(with_(node, work_s=node.work_s / count, cpu_s=node.cpu_s / count))
        parts[node.key] = []
        for _ in range(count - 1):
            key = len(run.nodes) + len(added)
            added.append(with_(changed[-1], key=key, is_first=False, lag_s=run.costs.busy_s))
            parts[node.key].append(key)

    def change(ops: list[Op]) -> list[Op]:
        out: list[Op] = []
        for op in ops:
            out.append(op)
            if op.kind == SUBMIT and op.node in parts:
                out += [op_with(op, node=key) for key in parts[op.node]]
            elif op.kind == WAIT and not op.need and set(op.nodes) & set(parts):
                more = [key for each in op.nodes for key in parts.get(each, ())]
                out[-1] = op_with(op, nodes=(*op.nodes, *more))
        return out

    return run.changed(changed, added=added).with_each_program(change)


def too_many_workers(run: Run, sources: Sources) -> Iterator[Draft]:
    """More workers than cores: tasks that compute get in each other's way, and each worker has to be started."""
    group = [node for node in run.nodes if node.kind == TASK and node.process]
    workers = len({node.process for node in group})
    light = [node for node in group if node.resources.get("CPU", 0.0) < 1.0]
    # the tasks request too little, so too many run; the session's resources are right
    is_light = 2 * len(light) > len(group)
    if workers <= run.cores or (run.cpus <= run.cores and not is_light):
        return
    work = sum(node.work_s for node in group)
    cpu = sum(node.cpu_s for node in group)
    usual = [node for node in group if not node.is_first] or group
    busy = sum(node.cpu_s for node in usual) / max(1e-9, sum(node.work_s for node in usual))
    beside = workers if is_light else min(workers, run.cpus)
    # Of the cores that other programs left; at least half, or sleeping tasks would look like computing ones.
    room = run.cores * max(0.5, 1.0 - run.others)
    if busy < _COMPUTES * min(1.0, room / max(1, beside)):
        return  # the tasks mostly wait: running more of them at a time is right
    # If more tasks run than there are cores, each gets a share of a core. Alone, a computing task takes its
    # processor time.
    if not work or cpu / work < 0.25 * room / beside:
        return
    warm = warm_ups(run, cpu=True)
    saved = sum(warm.get(name, 0.0) for name in {node.name for node in group}) * (workers - run.cores)
    said = f"the session has {run.cpus:g} CPUs, the machine {run.cores} cores; tasks computed {cpu:.2f} s"
    if is_light:
        said = f"{len(light)} of {len(group)} tasks ask for less than one CPU, and computed {cpu:.2f} s; "
        said += f"the machine has {run.cores} cores"
    if saved:
        said += f"; each new worker spent {saved / max(1, workers - run.cores):.2f} s on its first task"
    if workers == len(group):
        said += "; every worker ran one task, so what a worker does once (imports, a model) cannot be told from the "
        said += "work itself"
    name = light[0].name if light else ""
    yield Draft(
        "too-many-workers",
        f"more workers than cores: {workers} workers on {run.cores} cores",
        asked_site(sources, name, light[0].site, "num_cpus") if is_light else _init_site(run, sources),
        workers,
        saved,
        said,
        f"Let {name} ask for a whole CPU: num_cpus=1, the default."
        if is_light
        else f"Leave num_cpus out of init(), or set it to {run.cores}.",
        _few_workers(run, group, beside, warm),
        sites=frozenset({EVERYWHERE}),
        best=_few_workers(run, group, beside, warm, is_once=True) if workers == len(group) else None,
    )


def _few_workers(
    run: Run, group: list[RunNode], beside: float, warm: Mapping[str, float], *, is_once: bool = False
) -> Run:
    """The run with a worker for each core: each task has a core of its own, and fewer workers have to start.

    `is_once`: as if all that the tasks did was what a worker does once.
    """
    boot_s = min((node.lag_s for node in group if node.is_first), default=0.0)
    share = run.cores * max(0.5, 1.0 - run.others) / beside
    usual = Costs()
    quick = []
    for place, node in enumerate(sorted(group, key=lambda each: each.start_s)):
        wants = {**node.resources, "CPU": max(1.0, node.resources.get("CPU", 0.0))}
        # A worker that had to wait for a core took its next task late.
        node = with_(node, resources=wants, lag_s=min(node.lag_s, boot_s if node.is_first else usual.idle_s))
        if is_once and place >= run.cores:
            node.work_s = node.cpu_s = 0.0
        if node.program is None and node.cpu_s > 0.1 * node.work_s * share:
            node.work_s = min(node.work_s, max(node.cpu_s, 1e-9))
        quick.append(node)
    costs = replaced(
        run.costs,
        idle_s=min(run.costs.idle_s, usual.idle_s),
        busy_s=min(run.costs.busy_s, usual.busy_s),
        boot_s=min(run.costs.boot_s, boot_s),
    )
    return run.changed(quick, cpus=min(run.cpus, float(run.cores)), warm=warm, costs=costs)


def _init_site(run: Run, sources: Sources) -> str:
    """Where the program calls init()."""
    files = {place.file for node in run.nodes[:1000] if (place := place_of(node.site)) is not None}
    files |= {run.entrypoint.split(" ")[0]} if run.entrypoint else set()
    for file in sorted(files):
        source = sources.of(file)
        if source is not None:
            for node in ast.walk(source.tree):
                if isinstance(node, ast.Call) and source.is_verb(node, "init"):
                    return f"{file}:{node.lineno}"
    return next((node.site for node in run.nodes if node.site), "")


def memory_bound(run: Run, sources: Sources) -> Iterator[Draft]:
    """Tasks ask for more memory than they use, so that fewer run at a time than there are CPUs."""
    for (name, site), group in _groups(run).items():
        asked = max((node.resources.get("memory", 0.0) for node in group), default=0.0)
        if not asked or len(group) < 3:
            continue
        peak = max(node.peak_bytes for node in group)
        fitting = run.resources.get("memory", 0.0) // asked
        if fitting >= min(run.cpus, len(group)) or peak * _ROOM >= asked:
            continue
        needs = peak * _ROOM
        slim = [with_(node, resources={**node.resources, "memory": needs}) for node in group]
        mib = 1 << 20
        yield Draft(
            "memory-bound",
            f"memory holds {name} back: {fitting:.0f} at a time, of {run.cpus:g} CPUs",
            asked_site(sources, name, site, "memory"),
            len(group),
            sum(node.start_s - node.submit_s for node in group),
            f"each asks for {asked / mib:.0f} MiB and used {peak / mib:.0f} MiB at most; the session has "
            f"{run.resources.get('memory', 0.0) / mib:.0f} MiB",
            f"Ask for what it uses: memory={int(needs / mib) + 1} * 1024**2.",
            run.changed(slim),
            sites=frozenset({site}),
        )


def asked_site(sources: Sources, name: str, site: str, option: str) -> str:
    """The line that gives an option: the call, an `options(…)` of its function, the decorator; else the call."""
    found = sources.at(site)
    if found is None:
        return site
    source, place = found
    if any(isinstance(node, ast.keyword) and node.arg == option for node in source.on(place.line)):
        return site
    called = {name_of(call.func.value) for call in source.remotes(source.on(place.line))}  # type: ignore[attr-defined]
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Assign) and {name_of(each) for each in node.targets} & called:
            for call in ast.walk(node.value):
                if isinstance(call, ast.Call) and any(each.arg == option for each in call.keywords):
                    return f"{source.file}:{call.lineno}"
    definition = source.definition(name)
    for decorator in definition.decorator_list if definition is not None else ():
        if isinstance(decorator, ast.Call) and any(each.arg == option for each in decorator.keywords):
            return f"{source.file}:{decorator.lineno}"
    return site


def time_text(seconds: float) -> str:
    return f"{seconds * 1e6:.0f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.1f} ms"
