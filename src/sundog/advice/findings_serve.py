"""Faults of services and of asyncio actors: code that blocks the loop, one hot replica, batches that never fill.

Pure but for the source files.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median

from sundog.advice.contention import calls_of
from sundog.advice.findings import Draft
from sundog.advice.run import CREATE, Run, RunNode, with_
from sundog.advice.source import Source, Sources, place_of

_REQUESTS = ("handle_request", "handle_http")  # methods of a replica that run a request
_LEAST_CALLS = 4
_LEAST_S = 0.005  # a shorter call blocks the event loop only briefly
_UNBALANCED = 1.5
_COMPUTES = 0.6
_FULL = 0.75  # calls that wait for their batch take at least this share of the time that a batch may wait
_BLOCKING = {
    "sleep": ("time",), "get": ("requests", "httpx", "sundog", "ray"), "post": ("requests", "httpx"),
    "run": ("subprocess",), "check_output": ("subprocess",), "urlopen": ("request", "urllib"),
    "wait": ("sundog", "ray"),
}  # fmt: skip


def blocking_code(run: Run, sources: Sources) -> Iterator[Draft]:
    """An async method that waits without `await`: the calls of its actor or replica run one at a time."""
    for actor in run.held:
        calls = [node for node in calls_of(run.nodes)[actor] if node.work_s >= _LEAST_S]
        waited = sum(max(0.0, node.start_s - node.submit_s) for node in calls)
        name, what = _named(run, actor, calls[0])
        place = _async_place(sources, run, name, calls[0])
        computes = run.busy.get(calls[0].process, 0.0) > _COMPUTES
        if computes:
            continue  # threads would share the interpreter lock: more replicas or actors help
        line, words = place
        usual = median(node.work_s for node in calls)
        yield Draft(
            "blocking-async",
            f"{what} {name} blocks its event loop: its calls run one at a time",
            line or calls[0].site,
            len(calls),
            waited,
            f"{len(calls)} calls of about {usual * 1e3:.0f} ms waited {waited:.2f} s for each other; the process used "
            f"{run.busy.get(calls[0].process, 0.0):.0%} of a core meanwhile",
            f"{words or 'It waits without await.'} Await it (asyncio.sleep, an async client), or move it off the loop: "
            "await asyncio.to_thread(f, ...).",
            run.changed(held=run.held - {actor}),
            sites=frozenset(node.site for node in calls),
        )


def hot_replica(run: Run, sources: Sources) -> Iterator[Draft]:
    """Several replicas of a deployment, of which one gets most of the requests."""
    deployments: dict[str, list[bytes]] = defaultdict(list)
    for actor, name in run.replicas.items():
        deployments[name].append(actor)
    calls = calls_of(run.nodes)
    for name, actors in deployments.items():
        requests = {each: _requests(calls.get(each, ())) for each in actors}
        busy = {each: sum(node.work_s for node in own) for each, own in requests.items()}
        everything = sorted(
            (node for own in requests.values() for node in own), key=lambda node: node.submit_s
        )
        mean = sum(busy.values()) / max(1, len(busy))
        if len(actors) < 2 or len(everything) < 2 * _LEAST_CALLS or mean <= 0:
            continue
        worst = max(busy, key=lambda each: busy[each])
        if busy[worst] < _UNBALANCED * mean:
            continue
        loads = dict.fromkeys(actors, 0.0)
        moved = []
        for node in everything:
            least = min(loads, key=lambda each: loads[each])
            loads[least] += node.work_s
            moved.append(with_(node, actor=least))
        held = run.held | set(actors) if worst in run.held else run.held
        yield Draft(
            "hot-replica",
            f"one hot replica: of {len(actors)} of {name}, one serves {busy[worst] / sum(busy.values()):.0%}",
            _class_place(sources, run, name.rpartition("#")[2], requests[worst]) or _most(requests[worst]),
            len(requests[worst]),
            busy[worst] - mean,
            f"the busiest served {len(requests[worst])} of {len(everything)} requests for {busy[worst]:.2f} s, "
            f"the mean is {mean:.2f} s",
            "Let the router choose: no session or model id that keeps requests at one replica, more model ids than "
            "replicas, or a request_router_class that looks at queues.",
            run.changed(moved, held=frozenset(held)),
            sites=frozenset(node.site for node in everything),
        )


def batch_never_fills(run: Run, sources: Sources) -> Iterator[Draft]:
    """`@serve.batch` waits for requests that do not come: each call takes as long as a batch may wait."""
    by_name: dict[str, list[RunNode]] = defaultdict(list)
    calls = calls_of(run.nodes)
    for actor, name in run.replicas.items():
        by_name[name].extend(_requests(calls.get(actor, ())))
    for name, requests in by_name.items():
        found = _batch_at(sources, run, name.rpartition("#")[2], requests)
        if found is None or len(requests) < _LEAST_CALLS:
            continue
        site, size, wait_s = found
        together = _most_at_a_time(requests)
        if together >= size or wait_s <= _LEAST_S:
            continue
        waiting = [node for node in requests if node.work_s >= _FULL * wait_s]
        if len(waiting) < _FULL * len(requests):
            continue
        least = 1e-3
        sooner = [with_(node, work_s=max(least, node.work_s - wait_s)) for node in waiting]
        yield Draft(
            "batch-never-fills",
            f"batches of {name} never fill: {together} of {size} requests at a time",
            site,
            len(waiting),
            sum(min(node.work_s, wait_s) for node in waiting),
            f"{len(waiting)} of {len(requests)} requests took {wait_s:g} s or more, the time that a batch waits for "
            f"{size}; at most {together} were there at a time",
            f"Set max_batch_size={max(1, together)} or batch_wait_timeout_s=0: then a batch that is not full goes at "
            "once.",
            run.changed(sooner),
            sites=frozenset(node.site for node in requests),
        )


# ---------------------------------------------------------------------- what a call is of, and where
def _requests(calls: Sequence[RunNode]) -> list[RunNode]:
    return [node for node in calls if node.name.rpartition(".")[2].startswith(_REQUESTS)]


def _named(run: Run, actor: bytes, call: RunNode) -> tuple[str, str]:
    deployment = run.replicas.get(actor)
    if deployment is not None:
        return deployment.rpartition("#")[2], "the deployment"
    return call.name.rpartition(".")[0] or call.name, "the asyncio actor"


def _files(sources: Sources, run: Run, calls: Sequence[RunNode]) -> Iterator[Source]:
    files = [place.file for node in calls[:100] if (place := place_of(node.site)) is not None]
    files += [
        place.file
        for node in run.nodes[:1000]
        if node.kind == CREATE and (place := place_of(node.site)) is not None
    ]
    for file in dict.fromkeys([*files, run.entrypoint.split(" ")[0]]):
        source = sources.of(file) if file else None
        if source is not None:
            yield source


def _async_place(sources: Sources, run: Run, name: str, call: RunNode) -> tuple[str, str]:
    """The line of an async method that most likely blocks, and what it is; "" if the class is not found."""
    for source in _files(sources, run, [call]):
        definition = source.definition(name)
        if not isinstance(definition, ast.ClassDef):
            continue
        methods = [node for node in ast.walk(definition) if isinstance(node, ast.AsyncFunctionDef)]
        for method in methods:
            for node in ast.walk(method):
                if isinstance(node, ast.Call) and _is_blocking(node):
                    return f"{source.file}:{node.lineno}", f"{ast.unparse(node.func)}() waits without await."
        if methods:
            return f"{source.file}:{methods[0].lineno}", ""
    return "", ""


def _class_place(sources: Sources, run: Run, name: str, calls: Sequence[RunNode]) -> str:
    for source in _files(sources, run, calls):
        definition = source.definition(name)
        if definition is not None:
            return f"{source.file}:{definition.lineno}"
    return ""


def _is_blocking(call: ast.Call) -> bool:
    function = call.func
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name | ast.Attribute):
        owner = function.value.id if isinstance(function.value, ast.Name) else function.value.attr
        return owner in _BLOCKING.get(function.attr, ())
    return False


def _batch_at(
    sources: Sources, run: Run, name: str, requests: Sequence[RunNode]
) -> tuple[str, int, float] | None:
    """The line of `@serve.batch` in a deployment's class, with its size and its wait; None if it has none."""
    for source in _files(sources, run, requests):
        definition = source.definition(name)
        if definition is None:
            continue
        for node in ast.walk(definition):
            for decorator in getattr(node, "decorator_list", ()):
                called = decorator.func if isinstance(decorator, ast.Call) else decorator
                if getattr(called, "attr", getattr(called, "id", "")) != "batch":
                    continue
                given = {each.arg: each.value for each in getattr(decorator, "keywords", ())}
                size, wait = (
                    _number(given.get("max_batch_size"), 10),
                    _number(given.get("batch_wait_timeout_s"), 0.01),
                )
                if size is not None and wait is not None:
                    return f"{source.file}:{decorator.lineno}", int(size), float(wait)
    return None


def _number(value: ast.expr | None, default: float) -> float | None:
    if value is None:
        return default
    found = value.value if isinstance(value, ast.Constant) else None
    return found if isinstance(found, int | float) else None


def _most_at_a_time(calls: Sequence[RunNode]) -> int:
    changes = sorted([(node.start_s, 1) for node in calls] + [(node.end_s, -1) for node in calls])
    most = now = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return most


def _most(calls: Sequence[RunNode]) -> str:
    sites: dict[str, float] = defaultdict(float)
    for node in calls:
        sites[node.site] += node.work_s
    return max(sites, key=lambda each: sites[each]) if sites else ""
