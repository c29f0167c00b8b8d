"""Findings about a cluster: a node idle while tasks queue, an autoscaler that waits, data that travels or is spilled.

These findings come from the records of nodes. The simulator, which knows one machine, does not play them: their gain is
an estimate, and each finding says of what. Owns their thresholds and words. Reads the index alone; runs in the process
that asks.
"""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise

from sundog.advice.findings import LEAST_SHARE, Finding
from sundog.observe.index import Index
from sundog.plain import JsonObject, plain

Spans = list[tuple[float, float]]

_QUEUED_LEAST_S = 0.2  # a shorter wait is the normal way to a worker
_WARM_UP_S = 10.0  # how long a node may take to start its first workers
_LEAST_S = 1.0
_STEADY_S = (
    # the cluster is sampled once a second, and a worker takes time to start: a shorter gap is not idleness
    2.5
)
_LARGE_BYTES = 1 << 20
_TIMES = 5
_MIB = 1 << 20
_SPILL_SHARE = 0.8


@plain(frozen=True)
class NodePlace:
    """A node, while it was there."""

    node_id: str
    cpus: float
    since_s: float
    until_s: float
    has: dict[str, float]


def find(index: Index, length_s: float) -> list[Finding]:
    """The findings about the nodes of a session; none for one that had a single node."""
    if length_s <= 0:
        return []
    found = [*_autoscaler(index, length_s)]
    nodes = places(index)
    if len(nodes) > 1:
        found += [*_idle_nodes(index, nodes, length_s), *_moved(index, length_s), *_spilling(index, nodes)]
    return sorted(found, key=lambda each: -each.gain_s)


def places(index: Index) -> list[NodePlace]:
    """The nodes with processors that the records know, and when they were there."""
    end_s = index.one("SELECT max(end_s) FROM attempts") or 0.0
    seen: dict[str, list[float]] = {}
    has: dict[str, dict[str, float]] = {}
    for node_id, at_s, text in index.rows(
        "SELECT subject, at_s, json FROM facts WHERE kind = 'node' ORDER BY at_s"
    ):
        row = json.loads(text)["row"]
        if row["state"] == "DEAD":
            if node_id in seen:
                seen[node_id][2] = at_s
            continue
        has[node_id] = dict(row["resources_total"] or {})
        seen.setdefault(node_id, [float(has[node_id].get("CPU", 0.0)), at_s, end_s])
    return [
        NodePlace(node_id, each[0], each[1], each[2], has[node_id])
        for node_id, each in seen.items()
        if each[0] >= 1
    ]


# ---------------------------------------------------------------------- spans of time
def merged(spans: Spans) -> Spans:
    """Spans without overlaps, in order.

    >>> merged([(5.0, 6.0), (1.0, 3.0), (2.0, 4.0)])
    [(1.0, 4.0), (5.0, 6.0)]
    """
    out: Spans = []
    for start, end in sorted(each for each in spans if each[1] > each[0]):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out


def overlaps(one: Spans, other: Spans) -> Spans:
    """The spans that are in both.

    >>> overlaps([(1.0, 4.0)], [(0.0, 2.0), (3.0, 9.0)])
    [(1.0, 2.0), (3.0, 4.0)]
    """
    first, second, out = merged(one), merged(other), []
    i = j = 0
    while i < len(first) and j < len(second):
        start, end = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        if start < end:
            out.append((start, end))
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1
    return out


def common(one: Spans, other: Spans) -> float:
    """How many seconds are in both.

    >>> common([(1.0, 4.0)], [(0.0, 2.0), (3.0, 9.0)])
    2.0
    """
    return sum(end - start for start, end in overlaps(one, other))


def _without(whole: tuple[float, float], spans: Spans) -> Spans:
    out, at = [], whole[0]
    for start, end in merged(spans):
        if start > at:
            out.append((at, min(start, whole[1])))
        at = max(at, end)
    return [*out, (at, whole[1])] if at < whole[1] else out


# ---------------------------------------------------------------------- findings
def _idle_nodes(index: Index, nodes: list[NodePlace], length_s: float) -> list[Finding]:
    queued = _queued(index)
    looks = demands(index)
    total = sum(each.cpus for each in nodes)
    found = []
    for node in nodes:
        ran = index.rows(
            "SELECT a.start_s, a.end_s FROM attempts a JOIN processes p ON p.id = a.process WHERE p.node_id = ?",
            bytes.fromhex(node.node_id),
        )
        first = min((start for start, _ in ran), default=node.since_s + _WARM_UP_S)
        begin = first if first < node.since_s + _WARM_UP_S else node.since_s + _WARM_UP_S
        if begin >= node.until_s:
            continue
        waits = overlaps(queued, _wanted(looks, node)) if looks else queued
        spans = overlaps(_without((begin, node.until_s), ran), waits)
        idle_s = sum(end - start for start, end in spans if end - start >= _STEADY_S)
        gain_s = idle_s * node.cpus / total
        if idle_s < _LEAST_S or gain_s < LEAST_SHARE * length_s:
            continue
        found.append(
            _finding(
                "idle-node",
                f"node {node.node_id[:8]} stood idle for {idle_s:.1f} s while tasks waited",
                1,
                idle_s,
                gain_s,
                length_s,
                f"it has {node.cpus:g} of {total:g} CPUs, and ran {len(ran)} of the attempts",
                'Let tasks go there: scheduling_strategy="SPREAD", and no resource, label or affinity that it lacks.',
            )
        )
    return found


def _queued(index: Index) -> Spans:
    """When tasks waited whose arguments were there."""
    return merged(
        [
            (submit_s, start_s)
            for submit_s, start_s in index.rows(
                "SELECT max(a.submit_s, ifnull((SELECT max(r.ready_s) FROM ready r WHERE r.task_id = a.task_id), 0)) "
                "AS since_s, a.start_s FROM attempts a WHERE a.kind = 1 AND a.attempt = 0 AND "
                "a.start_s - a.submit_s > ?",
                _QUEUED_LEAST_S,
            )
            if start_s - submit_s > _QUEUED_LEAST_S
        ]
    )


def demands(index: Index) -> list[tuple[float, JsonObject]]:
    """What the cluster said of its demands, at each change; empty for a session that is on no Ray cluster."""
    rows = index.rows("SELECT at_s, json FROM facts WHERE kind = 'demand' ORDER BY at_s")
    return [(at_s, json.loads(text)) for at_s, text in rows]


def _wanted(looks: list[tuple[float, JsonObject]], node: NodePlace) -> Spans:
    """When something waited that the node could have run: a task for a GPU may wait beside any number of CPUs."""
    spans = []
    for (at_s, look), (next_s, _) in pairwise([*looks, (node.until_s, {})]):
        shapes = [each["shape"] for each in look["pending"]]
        if any(all(node.has.get(name, 0.0) >= amount for name, amount in each.items()) for each in shapes):
            spans.append((at_s, next_s))
    return merged(spans)


def _autoscaler(index: Index, length_s: float) -> list[Finding]:
    looks = demands(index)
    waits: Spans = []
    starting: Spans = []
    failed: list[str] = []
    for (at_s, look), (next_s, _) in pairwise(looks):
        if look["pending"] and not look["nodes"] > 1:
            waits.append((at_s, next_s))
        if look["pending"] and (look["starting"] or _launching(look)):
            starting.append((at_s, next_s))
        failed += [
            f"{each['type']}: {each['details'] or 'no reason was given'}"
            for each in look["launches"]
            if each["kind"] == "failed"
        ]
    if not starting and not failed:
        return []
    ran = [(start, end) for start, end in index.rows("SELECT start_s, end_s FROM attempts WHERE kind = 1")]
    cost_s = sum(end - start for start, end in merged([*starting, *waits]))
    gain_s = cost_s - common(starting + waits, ran)
    if cost_s < _LEAST_S or (gain_s < LEAST_SHARE * length_s and not failed):
        return []
    evidence = f"in {gain_s:.1f} s of these nothing ran at all"
    if failed:
        evidence += f"; nodes that could not be started: {failed[-1]}"
    change = (
        "Keep a node ready (min_workers), or ask early: ray.autoscaler.sdk.request_resources(num_cpus=…)."
    )
    title = f"tasks waited {cost_s:.1f} s for nodes that the autoscaler starts"
    return [
        _finding("autoscaler-waits", title, len(starting) or 1, cost_s, gain_s, length_s, evidence, change)
    ]


def _launching(look: JsonObject) -> bool:
    return any(each["kind"] == "launching" for each in look["launches"])


def _moved(index: Index, length_s: float) -> list[Finding]:
    groups: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for name, size, node in index.rows(
        "SELECT n.text, t.by_value, lower(hex(p.node_id)) FROM traffic t JOIN attempts a ON a.task_id = t.task_id AND "
        "a.attempt = t.attempt JOIN processes p ON p.id = a.process JOIN names n ON n.id = a.name "
        "WHERE t.by_value >= ?",
        _LARGE_BYTES,
    ):
        groups[name].append((size, node))
    found = []
    for name, moves in groups.items():
        nodes = {node for _, node in moves}
        if len(moves) < _TIMES or len(nodes) < 2:
            continue
        bytes_ = sum(size for size, _ in moves)
        again = bytes_ * (len(moves) - len(nodes)) / len(moves)
        found.append(
            _finding(
                "arguments-moved",
                f"arguments of {name} travelled {len(moves)} times: {bytes_ / _MIB:.0f} MiB to {len(nodes)} nodes",
                len(moves),
                0.0,
                0.0,
                length_s,
                f"stored once, each node would get them once: {again / _MIB:.0f} MiB less; the time of it is not known",
                "Store it once and pass the ref: ref = put(value).",
            )
        )
    return found


def _spilling(index: Index, nodes: list[NodePlace]) -> list[Finding]:
    spilled: dict[str, int] = {}
    for node_id, text in index.rows("SELECT subject, json FROM facts WHERE kind = 'store' ORDER BY at_s"):
        spilled[node_id] = int(json.loads(text)["spilled_bytes"])
    total = sum(spilled.values())
    if not total:
        return []
    node, most = max(spilled.items(), key=lambda each: each[1])
    if most < _SPILL_SHARE * total or total < _LARGE_BYTES:
        return []
    return [
        _finding(
            "one-node-spills",
            f"node {node[:8]} spilled {most / _MIB:.0f} MiB to its disk, and the other {len(nodes) - 1} hardly any",
            1,
            0.0,
            0.0,
            0.0,
            f"{most / total:.0%} of all that was spilled; the time of it is not known",
            'Spread what makes these objects: scheduling_strategy="SPREAD"; or drop refs sooner.',
        )
    ]


def _finding(
    kind: str,
    title: str,
    often: int,
    cost_s: float,
    gain_s: float,
    length_s: float,
    evidence: str,
    change: str,
) -> Finding:
    return Finding(kind, title, "", 0, often, cost_s, gain_s, max(0.0, length_s - gain_s), evidence, change)
