"""Why a run was not as fast as its cores allow: advice, each with its evidence and its price.

Owns: the diagnoses. Refuses: reading records (rows are passed in, see timeline.py), and guesses: an advice is
given only when the rows show its pattern, and its numbers are computed from them. Runs wherever it is called.

Every price is an estimate under a stated assumption: what is mended spreads evenly over the cores. Prices of
different advice overlap, as one stretch of time may have two causes, so they do not add up.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from sundog.observe.timeline import SpanRow, TaskRow

# A cost below this share of the run is not worth a person's attention.
_WORTH_SAYING = 0.05
# A task should run for this many times its own overhead: then the overhead takes at most a sixth.
_OVERHEAD_FACTOR = 5.0
# What a task costs when the rows leave no way to measure it.
_ASSUMED_OVERHEAD_S = 100e-6
_STRAGGLER_FACTOR = 3.0


@dataclass(frozen=True, slots=True)
class Advice:
    """One reason for missing speed: what it is, how one sees it, what it costs, and what to do.

    `would_take_s` is what the whole run would take with this one thing mended.
    """

    title: str
    evidence: str
    cost_s: float
    would_take_s: float
    next_step: str


@dataclass(frozen=True, slots=True)
class _Run:
    """A finished attempt, its times known to be there."""

    row: TaskRow
    start: float
    end: float

    @property
    def time(self) -> float:
        return self.end - self.start


def advise(tasks: Iterable[TaskRow], spans: Iterable[SpanRow], *, cores: int, wall_s: float) -> list[Advice]:
    """What kept this run from being faster, most expensive first.

    Args:
        tasks: all attempts; unfinished ones are left out of account.
        spans: `get`, `put` and `wait` of drivers and workers.
        cores: how many tasks could have run at once.
        wall_s: how long the run took, from the start of the program.

    Raises:
        ValueError: `cores` below 1 or a negative `wall_s`.
    """
    if cores < 1 or wall_s < 0:
        raise ValueError(f"cores must be at least 1 and wall_s not negative, got {cores} and {wall_s}")
    runs = sorted(
        (_Run(t, t.start_s, t.end_s) for t in tasks if t.start_s is not None and t.end_s is not None),
        key=lambda run: run.start,
    )
    if not runs or wall_s == 0:
        return []
    waits = [span for span in spans if span.kind in ("get", "wait")]
    found = [
        *_get_in_a_loop(runs, waits, cores, wall_s),
        *_tasks_too_small(runs, wall_s),
        *_one_actor_serialising(runs, cores, wall_s),
        *_stragglers(runs, cores, wall_s),
        *_serial_part(runs, waits, cores, wall_s),
    ]
    worthy = [advice for advice in found if advice.cost_s >= _WORTH_SAYING * wall_s]
    return sorted(worthy, key=lambda advice: -advice.cost_s)


def _get_in_a_loop(
    runs: Sequence[_Run], waits: Sequence[SpanRow], cores: int, wall_s: float
) -> Iterator[Advice]:
    """submit, get, submit, get: each get waits for the only task in flight."""
    by_owner: dict[bytes, list[_Run]] = defaultdict(list)
    for run in runs:
        by_owner[run.row.owner_id].append(run)
    gets_of: dict[bytes, list[SpanRow]] = defaultdict(list)
    for wait in waits:
        if wait.kind == "get":
            gets_of[wait.owner_id].append(wait)
    for owner_id, own in by_owner.items():
        gets = sorted(gets_of[owner_id], key=lambda get: get.start_s)
        lonely = _lonely_gets(own, gets)
        if cores < 2 or len(lonely) < 3 or len(lonely) < len(own) / 2:
            continue
        waited = sum(get.end_s - get.start_s for get, _ in lonely)
        times = [run.time for _, run in lonely]
        ideal = max(max(times), sum(times) / cores)
        name = Counter(run.row.name for _, run in lonely).most_common(1)[0][0]
        where = next((get.detail for get, _ in lonely if get.detail), "")
        yield Advice(
            title=f"get in a loop: {name} runs one at a time",
            evidence=f"{len(lonely)} of {len(gets)} gets of owner {owner_id.hex()} (pid {lonely[0][0].pid}) "
            f"waited for the only task in flight, {waited:.3f} s in all" + (f", at {where}" if where else ""),
            cost_s=max(0.0, waited - ideal),
            would_take_s=wall_s - max(0.0, waited - ideal),
            next_step="If the calls do not need each other's results, submit them all, then get once: "
            f"refs = [{name}.remote(x) for x in xs]; results = get(refs)",
        )


def _lonely_gets(own: Sequence[_Run], gets: Sequence[SpanRow]) -> list[tuple[SpanRow, _Run]]:
    """Gets during which exactly one task of their owner was in flight, each task taken once."""
    by_submit = sorted(own, key=lambda run: run.row.submit_s)
    submits = [run.row.submit_s for run in by_submit]
    ends = sorted(run.end for run in own)
    lonely = []
    taken = -1
    for get in gets:
        last = bisect_right(submits, get.start_s) - 1
        in_flight = last + 1 - bisect_right(ends, get.start_s)
        more_came = bisect_left(submits, get.end_s) - 1 > last
        if in_flight == 1 and not more_came and last > taken and by_submit[last].end <= get.end_s:
            lonely.append((get, by_submit[last]))
            taken = last
    return lonely


def _overhead_s(runs: Sequence[_Run]) -> tuple[float, bool]:
    """What lies between two tasks of a worker when the second one was waiting already; is it measured?"""
    last: dict[bytes, float] = {}
    gaps = []
    for run in runs:
        before = last.get(run.row.worker_id)
        if before is not None and run.row.submit_s <= before <= run.start:
            gaps.append(run.start - before)
        last[run.row.worker_id] = max(run.end, before or run.end)
    return (median(gaps), True) if len(gaps) >= 10 else (_ASSUMED_OVERHEAD_S, False)


def _tasks_too_small(runs: Sequence[_Run], wall_s: float) -> Iterator[Advice]:
    overhead, measured = _overhead_s(runs)
    groups: dict[str, list[_Run]] = defaultdict(list)
    for run in runs:
        if run.row.kind != "actor_creation":
            groups[run.row.name].append(run)
    for name, group in groups.items():
        mean = sum(run.time for run in group) / len(group)
        if len(group) < 20 or mean >= overhead * _OVERHEAD_FACTOR:
            continue
        bundle = max(2, round(overhead * _OVERHEAD_FACTOR / mean)) if mean > 0 else 1000
        workers = len({run.row.worker_id for run in group})
        # Workers bear the overhead side by side; bundling leaves one share of it per bundle.
        cost = len(group) * overhead / workers * (1 - 1 / min(bundle, len(group)))
        cost = min(cost, wall_s)
        how = "measured between tasks" if measured else "assumed, too few tasks to measure it"
        yield Advice(
            title=f"tasks too small: {name} takes {mean * 1e6:.0f} µs",
            evidence=f"{len(group)} calls of {mean * 1e6:.0f} µs on average, against {overhead * 1e6:.0f} µs "
            f"of overhead for each ({how}): {mean / (mean + overhead):.0%} of the time is work",
            cost_s=cost,
            would_take_s=wall_s - cost,
            next_step=f"Give each call about {bundle} items: {name}.remote(xs[i:i + {bundle}])",
        )


def _one_actor_serialising(runs: Sequence[_Run], cores: int, wall_s: float) -> Iterator[Advice]:
    actors: dict[bytes, list[_Run]] = defaultdict(list)
    for run in runs:
        if run.row.kind == "actor_task":
            actors[run.row.worker_id].append(run)
    for worker_id, calls in actors.items():
        busy = _union((run.start, run.end) for run in calls)
        total = sum(run.time for run in calls)
        queued = sum(run.start - run.row.submit_s for run in calls) / len(calls)
        # One at a time (nothing overlaps), most of the run, and callers had to stand in line.
        if len(calls) < 3 or busy < 0.5 * wall_s or total > 1.05 * busy or queued < total / len(calls):
            continue
        others = [run for run in runs if run.row.worker_id != worker_id]
        beside = sum(run.time for run in others) / wall_s
        idle_cores = cores - 1 - beside
        if idle_cores < 1:
            continue
        share = 1 + int(idle_cores)
        cost = busy - max(max(run.time for run in calls), busy / share)
        name = calls[0].row.name.rpartition(".")[0] or calls[0].row.name
        yield Advice(
            title=f"one actor serialises the run: {name} (pid {calls[0].row.pid})",
            evidence=f"{len(calls)} calls ran one after another for {busy:.3f} s of {wall_s:.3f} s; each "
            f"waited {queued:.3f} s for its turn, while {idle_cores:.1f} of {cores} cores had nothing to do",
            cost_s=cost,
            would_take_s=wall_s - cost,
            next_step=f"Share the calls among {share} actors (util.ActorPool), or make them tasks if the "
            "state is only read; for calls that wait on I/O, async methods or max_concurrency will do",
        )


def _stragglers(runs: Sequence[_Run], cores: int, wall_s: float) -> Iterator[Advice]:
    """Tasks far longer than their like which ran alone, all other cores waiting for them."""
    if cores < 2:
        return
    alone = _time_alone(runs)
    groups: dict[str, list[int]] = defaultdict(list)
    for index, run in enumerate(runs):
        groups[run.row.name].append(index)
    for name, members in groups.items():
        usual = median(runs[i].time for i in members)
        slow = [i for i in members if runs[i].time > _STRAGGLER_FACTOR * usual and alone.get(i, 0.0) > 0]
        if len(members) < 4 or not slow:
            continue
        solo = sum(alone[i] for i in slow)
        longest = max(slow, key=lambda i: runs[i].time)
        row = runs[longest].row
        cost = solo * (1 - 1 / cores)
        yield Advice(
            title=f"stragglers: {len(slow)} of {len(members)} calls of {name}",
            evidence=f"task {row.task_id.hex()} (pid {row.pid}) took {runs[longest].time:.3f} s where "
            f"{usual:.3f} s is usual; for {solo:.3f} s such tasks ran alone while {cores - 1} cores waited",
            cost_s=cost,
            would_take_s=wall_s - cost,
            next_step="Submit the long ones first, or cut them into pieces of the usual size; "
            f"look at task {row.task_id.hex()} in the timeline",
        )


def _serial_part(
    runs: Sequence[_Run], waits: Sequence[SpanRow], cores: int, wall_s: float
) -> Iterator[Advice]:
    """Amdahl: time in which no task ran and nobody waited for one is the program's own."""
    covered = _union([(run.start, run.end) for run in runs] + [(w.start_s, w.end_s) for w in waits])
    serial = wall_s - covered
    if serial <= 0:
        return
    work = sum(run.time for run in runs)
    yield Advice(
        title=f"Amdahl's serial part: {serial / wall_s:.0%} of the run happens outside of tasks",
        evidence=f"for {serial:.3f} s of {wall_s:.3f} s no task ran and nothing was waited for; with "
        f"{work:.3f} s of work in tasks, no number of cores makes this more than "
        f"{(serial + work) / serial:.1f} times as fast as one core "
        f"({cores} cores: {(serial + work) / (serial + work / cores):.1f} times)",
        cost_s=serial,
        would_take_s=wall_s - serial,
        next_step="See what the driver does in that time (python -m cProfile), and move "
        "it into tasks or do it while tasks run",
    )


def _union(stretches: Iterable[tuple[float, float]]) -> float:
    """How much time at least one of the stretches covers."""
    total, reach = 0.0, float("-inf")
    for start, end in sorted(stretches):
        if end > reach:
            total += end - max(start, reach)
            reach = end
    return total


def _time_alone(runs: Sequence[_Run]) -> dict[int, float]:
    """For each run (by index; runs are in order of start) the time during which no other one was running."""
    alone: dict[int, float] = defaultdict(float)
    active: set[int] = set()
    ending: list[tuple[float, int]] = []
    clock = 0.0

    def advance(until: float) -> None:
        nonlocal clock
        if len(active) == 1 and until > clock:
            alone[next(iter(active))] += until - clock
        clock = until

    for index, run in enumerate(runs):
        while ending and ending[0][0] <= run.start:
            end, gone = heapq.heappop(ending)
            advance(end)
            active.remove(gone)
        advance(run.start)
        active.add(index)
        heapq.heappush(ending, (run.end, index))
    while ending:
        end, gone = heapq.heappop(ending)
        advance(end)
        active.remove(gone)
    return alone
