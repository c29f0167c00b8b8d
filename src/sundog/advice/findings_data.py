"""Faults of data: a large argument by value again and again, a function that carries data, spilling, too many threads.

Pure but for the source files.
"""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from statistics import median

from sundog.advice import mending
from sundog.advice.findings import EVERYWHERE, Draft
from sundog.advice.findings_tasks import bundled
from sundog.advice.run import CALL, COMPUTE, CREATE, SUBMIT, TASK, Copy, Op, Run, RunNode, op_with, with_
from sundog.advice.source import Loop, Source, Sources
from sundog.advice.turns import calls_of, targets_of

_TIMES = 3
_LARGE_BYTES = 1 << 17
_MIB = 1 << 20
_ARRAY_BYTES_PER_S = 400e6  # data that are pickled faster are mostly arrays or bytes
_LOADED_SHARE = 0.5  # of the time that pickling a class with its data takes, loading it takes at most
_IMPORTS = 10  # modules: from so many on, to import them takes a part of a load that counts
_CLOCK_S = 1e-3  # the clocks of a note and of an event are read one after the other
_SENT_MOST = 5.0  # sending a function takes at most so many times as long as pickling it
_START_S = 0.02  # of a worker that the node has begun to start already
_THRASH_S = 0.03  # moves of an object within this time belong together
# Of the processor time of threads that spin for each other, at least this share was work. Measured: 11 to 28 % for two
# tasks of two threads on two cores. How long they spun is not in the records.
_USEFUL_LEAST = 0.1
_LEAST_THREADS = 1  # threads of a library that compute besides the main thread
_THREAD_WORDS = (
    "set_num_threads",
    "threadpool_limits",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
)


def large_argument(run: Run, sources: Sources) -> Iterator[Draft]:
    """The same large value is passed by value with each call: pickled and copied each time."""
    groups: dict[tuple[bytes, str], dict[int, list[Copy]]] = defaultdict(lambda: defaultdict(list))
    for copy in run.copies:
        if copy.size_bytes >= _LARGE_BYTES and copy.site:
            groups[copy.owner, copy.site][copy.mark].append(copy)
    for (_, site), marks in groups.items():
        again = [copies for copies in marks.values() if len(copies) >= _TIMES]
        if not again:
            continue
        saved: dict[int, float] = {}
        for copies in again:
            for copy in copies[1:]:
                saved[copy.node] = copy.seconds
        cost = sum(saved.values())
        often = sum(len(copies) for copies in again)
        size = max(copies[0].size_bytes for copies in again)
        node = next((run.nodes[key] for key in saved if key >= 0), None)
        name = node.name if node is not None else "a task"
        yield Draft(
            "large-argument",
            f"a value of {size / _MIB:.1f} MiB is passed by value to {name}, {often} times",
            site,
            often,
            cost,
            f"it was pickled and copied {often} times, {cost:.2f} s and {size * often / _MIB:.0f} MiB in all",
            "Store it once and pass the ref: ref = put(value).",
            _quicker_submits(run, saved).changed(_at_hand(run, saved)),
            mending.put_once_diff(sources, site),
        )


def put_again(run: Run, sources: Sources) -> Iterator[Draft]:
    """The same large value is put into the store in each turn of a loop."""
    groups: dict[tuple[str, int], list[tuple[float, float]]] = defaultdict(list)
    for begin, end, size, site in run.puts:
        if size >= _LARGE_BYTES and site:
            groups[site, size].append((begin, end))
    for (site, size), puts in groups.items():
        name = _put_in_vain(sources, site) if len(puts) >= _TIMES else ""
        if not name:
            continue
        extra = puts[1:]
        cost = sum(end - begin for begin, end in extra)

        def change(ops: list[Op], extra: list[tuple[float, float]] = extra) -> list[Op]:
            return [op_with(op, seconds=_without(op, extra)) if op.kind == COMPUTE else op for op in ops]

        yield Draft(
            "large-argument",
            f"the same value of {size / _MIB:.1f} MiB is put into the store {len(puts)} times",
            site,
            len(puts),
            cost,
            f"put({name}) copied it {len(puts)} times, {cost:.2f} s and {size * len(puts) / _MIB:.0f} MiB in all",
            f"Put it once, before the loop: {name}_ref = put({name}); pass {name}_ref in each turn.",
            run.with_each_program(change),
            sites=frozenset({site.partition(" in ")[0]}),  # the same line as a serial part of the program
        )


def _without(op: Op, stretches: list[tuple[float, float]]) -> float:
    """A step's time less what some stretches have of it."""
    until = op.at_s + op.seconds
    inside = sum(max(0.0, min(end, until) - max(begin, op.at_s)) for begin, end in stretches)
    return max(0.0, op.seconds - inside)


def _put_in_vain(sources: Sources, site: str) -> str:
    """The variable that a line puts in each turn of its loop though no turn changes it; "" if there is none."""
    found = sources.at(site)
    if found is None:
        return ""
    source, place = found
    for call in source.calls(place.line, "put"):
        value = call.args[0] if call.args else None
        where, loop, value = _in_its_loop(sources, source, call, value)
        if loop is None:
            continue
        if isinstance(value, ast.Name) and value.id not in _changed_in(loop):
            return value.id
        if isinstance(value, ast.Attribute) and not _is_changed(where, value):
            return where.segment(value)
    return ""


def _in_its_loop(
    sources: Sources, source: Source, call: ast.Call, value: ast.expr | None
) -> tuple[Source, Loop | None, ast.expr | None]:
    """The loop that a put is made in, there or by a caller of its function, and what is put, as it is called there."""
    loop = source.loop_of(call)
    function = source.function_of(call)
    if loop is not None or not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return source, loop, value
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    for where, outer in calls_of(sources, source, function.name):
        loop = where.loop_of(outer)
        if loop is None:
            continue
        if not isinstance(value, ast.Name) or value.id not in names:
            return where, loop, value if isinstance(value, ast.Attribute) else None
        given = {each.arg: each.value for each in outer.keywords}
        bound = names[1:] if names[:1] == ["self"] else names
        given.update(zip(bound, outer.args))
        return where, loop, given.get(value.id)
    return source, None, value


def _changed_in(loop: Loop) -> set[str]:
    """The variables that a loop changes, and the objects whose methods it calls: they may have changed too."""
    parts = [*getattr(loop, "body", ()), *getattr(loop, "generators", ())]
    changed = {name for part in (loop, *parts) for name in targets_of(part)}
    changed |= {
        node.id for each in getattr(loop, "generators", ()) for node in ast.walk(each.target)
        if isinstance(node, ast.Name)
    }  # fmt: skip
    return changed | {
        node.func.value.id
        for part in parts
        for node in ast.walk(part)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
    }


def _is_changed(source: Source, value: ast.Attribute) -> bool:
    """Whether an attribute is not one of self, or is assigned anywhere but in a constructor."""
    if not isinstance(value.value, ast.Name) or value.value.id != "self":
        return True
    return any(
        f"self.{value.attr}" in targets_of(node)
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name != "__init__"
    )


def _at_hand(run: Run, keys: Iterable[int]) -> list[RunNode]:
    """Tasks whose large argument is in the store already: they wait for no copy of it."""
    costs = run.costs
    found = []
    for key in keys:
        if key >= 0 and not run.nodes[key].is_first:
            usual = costs.call_s if run.nodes[key].kind == CALL else costs.busy_s
            found.append(with_(run.nodes[key], lag_s=min(run.nodes[key].lag_s, max(usual, costs.idle_s))))
    return found


def _quicker_submits(run: Run, saved: dict[int, float]) -> Run:
    """The run in which the time before some submissions is shorter."""

    def change(ops: list[Op]) -> list[Op]:
        out = list(ops)
        for position, op in enumerate(ops):
            if op.kind == SUBMIT and op.node in saved and position and out[position - 1].kind == COMPUTE:
                before = out[position - 1]
                out[position - 1] = op_with(before, seconds=max(0.0, before.seconds - saved[op.node]))
        return out

    return run.with_each_program(change)


def closure(run: Run, sources: Sources) -> Iterator[Draft]:
    """A function that captured a large value: pickled with it, sent to each worker and unpickled there."""
    by_name: dict[str, list[tuple[int, float, float]]] = defaultdict(list)
    for each in run.functions:
        by_name[each.name].append((each.size_bytes, each.seconds, each.at_s))
    for name, rows in by_name.items():
        nodes = sorted(
            (node for node in run.nodes if node.name == name or node.name.startswith(f"{name}.")),
            key=lambda node: node.submit_s,
        )
        if not nodes:
            continue
        size = max(row[0] for row in rows)
        pickling = sum(row[1] for row in rows)
        saved: dict[int, float] = {}
        for _, seconds, at_s in rows:
            first = next((node for node in nodes if node.submit_s >= at_s - 1e-6), nodes[0])
            # Behind the pickling it is hashed and sent, before the first task that needs it is submitted.
            until = first.submit_s - at_s
            seconds = until if seconds < until < _SENT_MOST * seconds else seconds
            saved[first.key] = saved.get(first.key, 0.0) + seconds
        _add_sending(run, saved, nodes, [at_s for _, _, at_s in rows])
        at_s = min(row[2] for row in rows)
        first = next((node for node in nodes if node.submit_s >= at_s - 1e-6), nodes[0])
        # The put that replaces it copies the value once, and waits for the session if it is the first thing.
        saved[first.key] -= median(row[1] for row in rows) + max(0.0, run.costs.node_s - at_s)
        lighter, sent = _lighter(run, nodes, [at_s for _, _, at_s in rows])
        loading = _loading(run, name, nodes)
        workers = len({node.process for node in nodes})
        site, captured = _definition(sources, name, nodes[0].site)
        what = f" ({captured})" if captured else ""
        words = f"Store the value once and pass the ref: ref = put({captured or 'value'}); {name}.remote(ref, ...)."
        if size > _ARRAY_BYTES_PER_S * (1.0 - run.others) * pickling / len(rows):
            resent_s = 2 * max(row[1] for row in rows)  # a class is pickled and sent with each actor
            changed = _quicker_creations(_quicker_submits(run, saved), nodes, resent_s).changed(
                _unloaded(lighter, nodes, loading or _guessed(nodes, median(row[1] for row in rows)))
            )
        else:  # for many Python objects: each task that takes the ref unpickles them
            changed = _few_tasks(run, nodes)
            words += (
                f" It is made of many Python objects, which every task that takes the ref unpickles: give each of "
                f"{run.cores} tasks a share of the calls."
            )
        yield Draft(
            "closure",
            f"{name} carries {size / _MIB:.1f} MiB that it captured{what}",
            site,
            len(rows) + workers,
            pickling + sent + sum(loading.values()),
            f"it was pickled {len(rows)} time{'s' * (len(rows) != 1)} ({pickling:.2f} s) and sent to {workers} "
            f"workers, whose first tasks of it waited {sent:.2f} s longer"
            + (f"; to load it there took {sum(loading.values()):.2f} s" if loading else ""),
            words,
            changed,
            sites=frozenset(node.site for node in nodes),
        )


def _few_tasks(run: Run, nodes: list[RunNode]) -> Run:
    """The run with one task for each core in the place of many: each gets the value once, as each worker does now."""
    firsts = [node for node in nodes if node.is_first]
    later = [node.work_s for node in nodes if not node.is_first]
    usual = median(later) if later else 0.0
    once = max(0.0, median(node.work_s for node in firsts) - usual) if firsts else 0.0
    used = median(min(node.cpu_s, node.work_s) for node in firsts) if firsts else once
    keys = [node.key for node in nodes if node.kind == TASK and node.program is None]
    plain = run.changed(
        (
            with_(each, work_s=min(usual, each.work_s), cpu_s=min(usual, each.cpu_s))
            for each in (run.nodes[key] for key in keys)
        ),
        warm={},
    )
    for owner, ops in run.owners():
        own = [op.node for op in ops if op.kind == SUBMIT and op.node in set(keys)]
        if not own:
            continue
        steps, heads = bundled(plain, ops, own, -(-len(own) // run.cores))
        full = [with_(node, work_s=node.work_s + once, cpu_s=node.cpu_s + used) for node in heads]
        plain = plain.with_ops(owner, steps).changed(full)
    return plain


def _add_sending(run: Run, saved: dict[int, float], nodes: list[RunNode], made: list[float]) -> None:
    """Add what the program's submissions of a function took longer while the function was being sent to workers.

    Args:
        run: the run.
        saved: the time saved before submissions, to add to.
        nodes: the tasks of the function.
        made: when it was pickled.
    """
    times = sorted(made)
    keys = {node.key for node in nodes}
    until: dict[int, float] = {}  # of each definition: when the last worker began to run it
    seen: set[tuple[int, int]] = set()
    for node in sorted(nodes, key=lambda node: node.start_s):
        number = bisect_right(times, node.submit_s + 1e-6)
        if (number, node.process) not in seen:
            seen.add((number, node.process))
            until[number] = node.start_s
    gaps: list[tuple[int, float, float]] = []
    for _, ops in run.owners():
        for before, op in pairwise(ops):
            if op.kind == SUBMIT and op.node in keys and before.kind == COMPUTE and op.node not in saved:
                gaps.append((op.node, before.seconds, before.at_s))
    usual = median(gap for _, gap, _ in gaps) if gaps else 0.0
    for key, gap, at_s in gaps:
        number = bisect_right(times, run.nodes[key].submit_s + 1e-6)
        if gap > usual and at_s < until.get(number, 0.0):
            saved[key] = gap - usual


def _lighter(run: Run, nodes: list[RunNode], made: list[float]) -> tuple[list[RunNode], float]:
    """The first tasks of the function in each worker, without the wait for the function; and that wait in all.

    A function that is defined again (in a method, or a loop) is another one: it is sent again.
    """
    times = sorted(made)
    firsts: dict[tuple[int, int], RunNode] = {}
    for node in sorted(nodes, key=lambda node: node.start_s):
        firsts.setdefault((bisect_right(times, node.submit_s + 1e-6), node.process), node)
    others = [
        node.lag_s for node in run.nodes if node.is_first and node.key not in {n.key for n in firsts.values()}
    ]
    keys = {node.key for node in firsts.values()}
    calm = [node.lag_s for node in nodes if node.key not in keys]
    idle_s = min(run.costs.idle_s, median(calm)) if calm else run.costs.idle_s
    # What a start takes without the function. Other functions show it; else what is usual.
    usual = sorted(others)[len(others) // 2] if others else idle_s + _START_S
    out, sent = [], 0.0
    for (
        node
    ) in nodes:  # tasks behind a first one wait too, while the program sends the function to another worker
        target = max(usual, idle_s) if node.is_first else idle_s
        if node.lag_s > target:
            sent += node.lag_s - target if node.key in keys else 0.0
            out.append(with_(node, lag_s=target))
    return out, sent


def _loading(run: Run, name: str, nodes: list[RunNode]) -> dict[int, float]:
    """How long a process loaded the function or class, by the task within which it did."""
    found: dict[int, float] = {}
    pickled = [each.seconds for each in run.functions if each.name == name]
    for load in run.loads:
        if load.name != name:
            continue
        within = [
            node
            for node in nodes
            if node.process == load.process and node.start_s - _CLOCK_S <= load.at_s < node.end_s + _CLOCK_S
        ]
        if within:
            key = min(within, key=lambda node: abs(node.start_s - load.at_s)).key
            # Modules are imported in any case: the value itself takes about as long as its pickling did.
            own_s = (
                min(load.seconds, median(pickled)) if load.imported >= _IMPORTS and pickled else load.seconds
            )
            found[key] = found.get(key, 0.0) + own_s
    return found


def _guessed(nodes: list[RunNode], pickling_s: float) -> dict[int, float]:
    """The same where it was not recorded: no constructor of a class loads it for longer than the shortest one ran."""
    made = [node for node in nodes if node.kind == CREATE]
    least_s = min([_LOADED_SHARE * pickling_s, *(min(node.work_s, node.cpu_s) for node in made)])
    return {node.key: least_s for node in made}


def _unloaded(lighter: list[RunNode], nodes: list[RunNode], loading: Mapping[int, float]) -> list[RunNode]:
    """The same nodes, without the time that tasks and constructors took to load a large function or class."""
    found = {node.key: node for node in nodes if node.key in loading}
    found.update({node.key: node for node in lighter})
    for key, seconds in loading.items():
        node = found[key]
        work_s, cpu_s = max(0.0, node.work_s - seconds), max(0.0, node.cpu_s - seconds)
        found[key] = with_(node, work_s=work_s, cpu_s=cpu_s)
    return list(found.values())


def _quicker_creations(run: Run, nodes: list[RunNode], most_s: float) -> Run:
    """The run in which the class is not sent with each actor that is made, behind its submission."""
    made = {node.key for node in nodes if node.kind == CREATE}
    if not made:
        return run

    def change(ops: list[Op]) -> list[Op]:
        out = list(ops)
        for position, op in enumerate(ops[:-1]):
            after = ops[position + 1]
            if op.kind == SUBMIT and op.node in made and after.kind == COMPUTE:
                out[position + 1] = op_with(after, seconds=max(0.0, after.seconds - most_s))
        return out

    return run.with_each_program(change)


def _definition(sources: Sources, name: str, site: str) -> tuple[str, str]:
    """Where a function is defined, and which variable of its surroundings it uses."""
    found = sources.at(site)
    definition = found[0].definition(name) if found is not None else None
    if found is None or definition is None:
        return site, ""
    source = found[0]
    return f"{source.file}:{definition.lineno}", _captured(source, definition)


def _captured(source: Source, definition: ast.AST) -> str:
    """The variable that a function reads from around it and that is no function, class or module."""
    stored = {
        node.id
        for node in ast.walk(definition)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    stored |= {node.arg for node in ast.walk(definition) if isinstance(node, ast.arg)}
    read = [
        node.id
        for node in ast.walk(definition)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in stored
    ]
    assigned = {
        target.id
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Assign) and source.statement_of(node) is node
        for target in node.targets
        if isinstance(target, ast.Name) and not isinstance(node.value, ast.Constant)
    }
    return next((name for name in read if name in assigned), "")


def spilling(run: Run, sources: Sources) -> Iterator[Draft]:
    """Objects go to disk and come back: the store is too small for what the program keeps."""
    restores = [each for each in run.spills if each[3] == "restore"]
    if not restores:
        return
    stretches = sorted((at - seconds, at) for at, seconds, _, _ in run.spills)
    merged: list[list[float]] = []
    for begin, end in stretches:
        if merged and begin <= merged[-1][1] + _THRASH_S:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([begin, end])
    back = sum(size for _, _, size, kind in run.spills if kind == "restore")
    gone = sum(size for _, _, size, kind in run.spills if kind == "spill")

    def overlap(begin: float, end: float) -> float:
        return sum(max(0.0, min(end, last) - max(begin, first)) for first, last in merged)

    # A program or task computed while it used a core, and otherwise waited for the disk.
    load = max((program.load for program in run.programs), default=0.0)
    first = merged[0][0]
    calm = [(end - begin) / size for begin, end, size, _ in run.puts if end <= first]
    per_byte = median(calm) if len(calm) >= 2 else -1.0

    def shorter(op: Op) -> float:
        end = op.at_s + op.seconds
        puts = [
            put for put in run.puts if op.at_s - 1e-6 <= put[0] and put[1] <= end + 1e-6 and put[1] > first
        ]
        if puts and per_byte >= 0:  # assume the speed of puts before the store was full
            saved = sum(max(0.0, last - begin - size * per_byte) for begin, last, size, _ in puts)
            return max(0.0, op.seconds - saved)
        return max(op.seconds * load, op.seconds - overlap(op.at_s, end))

    def change(ops: list[Op]) -> list[Op]:
        return [op_with(op, seconds=shorter(op)) if op.kind == COMPUTE else op for op in ops]

    lighter = _without_disk(run, overlap)
    cost = sum(end - begin for begin, end in merged)
    yield Draft(
        "spilling",
        f"spilling: {gone / _MIB:.0f} MiB went to disk, {back / _MIB:.0f} MiB came back",
        run.largest_site or next((node.site for node in run.nodes if node.site), ""),
        len(run.spills),
        cost,
        f"{len(run.spills) - len(restores)} spills and {len(restores)} restores took {cost:.2f} s",
        "Keep fewer objects at a time (delete refs, get and drop results as they come), or give the store more room: "
        "init(object_store_memory=...).",
        run.changed(lighter, warm={}).with_each_program(change),
        sites=frozenset({EVERYWHERE}),
    )


def _without_disk(run: Run, overlap: Callable[[float, float], float]) -> list[RunNode]:
    """Tasks without the time in which objects moved: as long as tasks of their function at other times; if there are
    none, as long as they computed. They also start as quickly as those: no wait for restored arguments or for room.
    """
    calm: dict[str, list[float]] = defaultdict(list)
    lags: list[float] = []
    spent = {node.key: overlap(node.start_s, node.end_s) for node in run.nodes}
    waited = {node.key: overlap(node.start_s - node.lag_s, node.start_s) for node in run.nodes}
    for node in run.nodes:
        if not node.is_first and node.kind == TASK and not waited[node.key]:
            lags.append(node.lag_s)
        if not spent[node.key] and not node.is_first:
            calm[node.name].append(node.work_s)
    usual_s = median(lags) if len(lags) >= 2 else run.costs.idle_s
    found = []
    for node in run.nodes:
        lag_s = node.lag_s
        if waited[node.key] > 0 and not node.is_first:
            lag_s = min(lag_s, max(usual_s, lag_s - waited[node.key]))
        if spent[node.key] > 0 and node.program is None:
            alike = calm[node.name]
            least = max(node.work_s * 0.02, min(node.cpu_s, node.work_s))
            if len(alike) >= 2:
                least = min(least, median(alike))
            found.append(with_(node, work_s=max(least, node.work_s - spent[node.key]), lag_s=lag_s))
        elif lag_s < node.lag_s:
            found.append(with_(node, lag_s=lag_s))
    return found


def too_many_threads(run: Run, sources: Sources) -> Iterator[Draft]:
    """Libraries (BLAS, OpenMP, PyTorch) start threads in every worker: more than there are cores."""
    for name, threads in run.threads.items():
        group = [node for node in run.nodes if node.name == name and node.program is None]
        if not group:
            continue
        own = threads + 1  # the main thread works with them
        at_a_time = _at_a_time(group)
        cpus = max(node.resources.get("CPU", 1.0) for node in group)
        if (
            threads < _LEAST_THREADS
            or own < 2 * max(1.0, cpus)
            or own * at_a_time <= 1.5 * run.cores
            or at_a_time < 1.5
        ):
            continue
        cpu = sum(node.cpu_s for node in group)
        work = sum(node.end_s - node.start_s for node in group)
        if cpu < 0.25 * work * min(1.0, run.cores * (1.0 - run.others) / at_a_time):
            continue  # these tasks mostly wait, and not for a core
        useful, share = _with_one_thread(cpu / max(1e-9, work), own, at_a_time, run.cores)

        def one_thread(useful: float, group: list[RunNode] = group, share: float = share) -> Run:
            return run.changed(
                with_(node, work_s=max(1e-6, node.cpu_s * useful / share), cpu_s=node.cpu_s * useful)
                for node in group
            )

        yield Draft(
            "too-many-threads",
            f"too many threads: {name} starts about {own} in each of {at_a_time:.0f} workers, on {run.cores} cores",
            _threads_site(sources, group[0].site),
            len(group),
            cpu * (1 - useful),
            f"{own} threads × {at_a_time:.1f} tasks at a time on {run.cores} cores; the tasks used "
            f"{cpu:.2f} s of processor time, at most {useful:.0%} of it for their work: a thread that waits "
            "for one without a core spins",
            "Limit the threads of a task: unset OMP_NUM_THREADS (sundog sets it to the task's CPUs), call "
            "torch.set_num_threads(1) or threadpoolctl.threadpool_limits(1), or give it "
            f"num_cpus={min(own, run.cores)}.",
            one_thread(useful),
            best=one_thread(min(useful, _USEFUL_LEAST)),
        )


def _threads_site(sources: Sources, site: str) -> str:
    """The line that says how many threads there are to be; else where the task is submitted."""
    found = sources.at(site)
    if found is None:
        return site
    for number, line in enumerate(found[0].lines, 1):
        if any(word in line.partition("#")[0] for word in _THREAD_WORDS) and "import" not in line:
            return f"{found[0].file}:{number}"
    return site


def _with_one_thread(load: float, threads: int, at_a_time: float, cores: int) -> tuple[float, float]:
    """What share of its processor time a task needs with one thread, and how much of a core it has then.

    The threads of one call wait for each other, and spin meanwhile: the call goes on only while all of them have a core
    at the same time. Each thread had a core for a share of the time, so all of them had one for the product of these
    shares. More threads than cores never have one all together; then this counts too little as lost.

    Args:
        load: of the tasks: processor seconds by seconds.
        threads: of a task, with the main one.
        at_a_time: how many tasks ran at a time.
        cores: of the machine.
    """
    together = min(threads, cores)
    own = min(1.0, max(1e-3, load / together))
    others = max(0.0, cores / own - together * at_a_time)  # threads of other programs that wanted a core
    return own ** (together - 1), min(1.0, cores / (at_a_time + others))


def _at_a_time(group: list[RunNode]) -> float:
    begin, end = min(node.start_s for node in group), max(node.end_s for node in group)
    return sum(node.end_s - node.start_s for node in group) / max(1e-9, end - begin)
