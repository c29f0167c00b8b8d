"""A small simulator: plays a run's graph on given CPUs and cores, and says when it would have ended.

::

    programs ──submit──► waits for its arguments ──► queue of its resources ──► a worker ──► ended ──► waiters
                                                 └─► queue of its actor ───────┘

Owns the rules: tasks take their resources first come, first served, and give them back while they wait in a get; an
actor runs its calls in order; a task that has its resources takes the first worker that is free: one that has ended
its task, or a new one, which takes time to start; a task that waits for one of its own function runs it itself; where
tasks want more processor time than the machine has cores, all of them go slower. Durations, waits and gaps are those
that were measured; a task's load (processor seconds by seconds) was measured with what else ran then, so playing a run
unchanged slows nothing down. Pure: no clock, no randomness, no I/O.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial

from sundog.advice.costs import BOOT_MOST_S, READY_S, own_children
from sundog.advice.queueing import TaskTurns
from sundog.advice.run import CALL, COMPUTE, CREATE, SUBMIT, TASK, Op, Run, RunNode, ops_with_ready_results
from sundog.plain import field, plain

_STEPS_MAX = 5_000_000
_OVERLOADED = 1.02
_SAME_PACE = 0.01  # crowds that differ by less are treated alike
_STARTING = 2  # workers that a node starts at a time, for each core
_DEPTH_MAX = 50  # tasks that run inside each other in one worker


class CannotPlay(RuntimeError):
    """The run does not end in the simulator: something waits for what is not there."""


@plain()
class Played:
    """What the simulator saw."""

    length_s: float
    starts: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    peak_bytes: list[tuple[float, int]] = field(
        default_factory=list
    )  # memory of the tasks that run, over time
    killed: list[int] = field(default_factory=list)  # attempts that memory cost: their nodes
    too_large: list[int] = field(default_factory=list)  # nodes that do not fit even alone


class _Work:
    """Something that takes processor time."""

    __slots__ = ("at", "load", "rate", "remaining", "then", "version")

    def __init__(self, at: float, seconds: float, load: float, then: Callable[[float], None]) -> None:
        self.at, self.remaining, self.load, self.then = at, seconds, load, then
        self.rate, self.version = 1.0, 0


class _Actor:
    __slots__ = ("busy", "many", "queue", "ready")

    def __init__(self, many: bool) -> None:
        self.ready, self.busy, self.many = False, False, many
        self.queue: deque[int] = deque()


def play(run: Run) -> Played:
    """Play a run.

    Raises:
        CannotPlay: it does not end.
    """
    return _Player(run).play()


class _Player:
    def __init__(self, run: Run) -> None:
        self.run = run
        self.nodes = run.nodes
        count = len(run.nodes)
        self.free: dict[str, float] = {**run.resources, "CPU": run.cpus}
        self.heap: list[tuple[float, int, Callable[[float], None]]] = []
        self.number = 0
        self.missing = [0] * count
        self.followers: dict[int, list[int]] = {}
        self.done = [False] * count
        self.submitted = [False] * count
        self.waiters: dict[int, list[Callable[[float], None]]] = {}
        self.open: dict[
            int, tuple[float, Callable[[float], None]]
        ] = {}  # waits, when each ended, and its end
        self.requests: dict[tuple[tuple[str, float], ...], TaskTurns] = {}
        self.actors: dict[bytes, _Actor] = {}
        self.left: dict[bytes, int] = {}
        self.works: set[_Work] = set()
        self.load = 0.0
        self.pace = 1.0  # the demand for cores divided by their number, at the last update
        self.idle = 0
        # Tasks that have their resources and wait for a worker: first tasks of a worker in the run, and others.
        self.line: tuple[dict[int, None], dict[int, None]] = ({}, {})
        self.starting = 0  # workers that are being started
        self.lags = [  # of the workers that the run started, in their order
            node.lag_s
            for node in sorted(run.nodes, key=lambda node: node.start_s)
            if node.is_first and node.kind == TASK and node.start_s >= 0
        ]
        self.boots = 0
        self.own = own_children(run.nodes)
        self.depth: dict[int, int] = {}  # how many tasks run inside each other in one worker
        self.ready_at = -1.0  # when the first worker has begun
        self.starts, self.ends = [-1.0] * count, [-1.0] * count
        self.running: dict[int, int] = {}
        self.bytes: list[tuple[float, int]] = []
        self.queued: set[int] = set()  # in a queue, and not begun
        self.inside: set[int] = set()  # run by the worker that waits for them
        self.parked: deque[int] = deque()
        self.again: dict[int, int] = {}  # how many failed attempts of a node have been made
        self.killed: list[int] = []
        self.too_large: list[int] = []
        self.last = 0.0
        self.ends_at = -1.0  # when the last task ended
        self.reachable = {op.node for _, ops in run.owners() for op in ops if op.kind == SUBMIT}
        for node in run.nodes:
            if node.actor:
                self.left[node.actor] = self.left.get(node.actor, 0) + 1
                if node.actor not in self.actors:
                    self.actors[node.actor] = _Actor(node.actor in run.concurrent - run.held)
        self.made = {node.actor: node for node in run.nodes if node.kind == CREATE}
        for actor_id, actor in self.actors.items():
            actor.ready = actor_id not in self.made  # created before the records begin, or by another program

    # ------------------------------------------------------------------ the clock
    def at(self, moment: float, what: Callable[[float], None]) -> None:
        self.number += 1
        heapq.heappush(self.heap, (moment, self.number, what))

    def play(self) -> Played:
        unfinished = [0]
        ends: list[float] = []
        for program in self.run.programs:
            unfinished[0] += 1

            def ended(now: float) -> None:
                unfinished[0] -= 1
                ends.append(now)

            steps_ = ops_with_ready_results(self.nodes, program)
            self.at(program.begin_s, self._stepper(steps_, ended, None, program.load))
        steps = 0
        while unfinished[0] and (self.heap or self._submit_next()):
            now, _, what = heapq.heappop(self.heap)
            self.last = now
            what(now)
            steps += 1
            if steps > _STEPS_MAX:
                raise CannotPlay("it takes too many steps")
        if unfinished[0]:
            raise CannotPlay("a task waits for something that never ends")
        end = max(ends, default=self.last)
        return Played(end, self.starts, self.ends, self.bytes, self.killed, self.too_large)

    def _submit_next(self) -> bool:
        """Nothing moves: by the records, the process that is to submit the next task waits for that task.

        Asyncio actors cause this: their records do not tell which of several calls submitted a task, nor which call
        needs it. The task is then submitted at its recorded time. If all are submitted, the first waiting task stops
        waiting. Threads and nested calls cause it too: the records may then name the wrong task as the waiting one.
        """
        waiting = [key for key in self.reachable if not self.submitted[key]]
        if waiting:
            key = min(waiting, key=lambda each: self.nodes[each].submit_s)
            self.at(max(self.last, self.nodes[key].submit_s), partial(self._submit, key))
            return True
        waiting = [key for key in self.reachable if self.missing[key] > 0 and self.starts[key] < 0]
        if waiting:
            key = min(waiting, key=lambda each: self.nodes[each].submit_s)
            self.missing[key] = -len(self.nodes)  # the end of its arguments must not start it a second time
            self.at(self.last, partial(self._queue, key))
            return True
        stuck = [actor for actor, each in self.actors.items() if each.queue and not each.ready]
        for actor in stuck:
            self.actors[actor].ready = True
            self.at(self.last, partial(self._serve, actor))
        if not stuck and self.open:  # waits for each other, which cannot be: the one that ended first goes on
            turn = min(self.open, key=lambda each: self.open[each][0])
            self.at(self.last, self.open[turn][1])
            return True
        return bool(stuck)

    # ------------------------------------------------------------------ programs
    def _stepper(
        self, ops: list[Op], ended: Callable[[float], None], node: RunNode | None, load: float
    ) -> Callable[[float], None]:
        """Runs the steps of a program one after the other."""
        position = 0

        def step(now: float) -> None:
            nonlocal position
            while position < len(ops):
                op = ops[position]
                position += 1
                if op.kind == COMPUTE:
                    if op.seconds > 0:
                        self._work(now, op.seconds, load, step)
                        return
                elif op.kind == SUBMIT:
                    self._submit(op.node, now)
                elif not self._wait(op, now, step, node):
                    return
            ended(now)

        return step

    def _wait(self, op: Op, now: float, step: Callable[[float], None], node: RunNode | None) -> bool:
        """Wait for the nodes of a step; True if there is nothing to wait for."""
        known = [
            each for each in set(op.nodes) if each in self.reachable
        ]  # which process submits the others is not recorded
        open_ = [each for each in known if not self.done[each]]
        need = len(open_) if not op.need else op.need - (len(known) - len(open_))
        if need <= 0 or need > len(open_):
            return True
        lends = node is not None and not node.actor
        if node is not None and lends and not op.is_wait and self._runs_itself(op, now, step, node, open_):
            return False
        if lends and node is not None:
            self._release(node, now)

        turn = self.number = self.number + 1

        def one(moment: float) -> None:
            nonlocal need
            need -= 1
            if need == 0:
                self.open.pop(turn, None)
                if lends and node is not None:
                    self._take(node)  # at once, as the runtime does: for a while there may be one too many
                self.at(moment + (op.wake_s if op.wake_s >= 0 else self.run.costs.wake_s), step)

        def over(moment: float) -> None:
            nonlocal need
            need = 1
            one(moment)

        self.open[turn] = (op.at_s + op.waited_s, over)
        for each in open_:
            self.waiters.setdefault(each, []).append(one)
        return False

    def _runs_itself(
        self, op: Op, now: float, step: Callable[[float], None], node: RunNode, open_: list[int]
    ) -> bool:
        """A worker that waits runs an awaited task itself, with its own CPU, if no worker has begun it.

        The runtime does so with tasks of the same function. Which functions these are, the run shows.
        """
        depth = self.depth.get(node.key, 0)
        if node.name not in self.own or depth >= _DEPTH_MAX:
            return False
        alike = [each for each in open_ if self._is_like(self.nodes[each], node)]
        key = min((each for each in alike if each in self.queued or self._in_line(each)), default=-1)
        if key < 0:
            return False
        self.queued.discard(key)
        self.inside.add(key)
        self.depth[key] = depth + 1
        if self._in_line(key):  # the lease that was to run it is not needed any more
            self._leave_line(key)
            self._leave(self.nodes[key], now)

        def again(moment: float) -> None:
            if self._wait(op, moment, step, node):
                step(moment)

        self.waiters.setdefault(key, []).append(again)
        # At once: what the runtime takes for it is in the recorded steps of the task that waits.
        self.at(now, partial(self._run, self.nodes[key], 0.0))
        return True

    # ------------------------------------------------------------------ processor time
    def _work(self, now: float, seconds: float, load: float, then: Callable[[float], None]) -> None:
        work = _Work(now, seconds, load, then)
        self.works.add(work)
        self.load += load
        self._paced(now, work)

    def _paced(self, now: float, new: _Work | None) -> None:
        """Set how fast everything goes from now on."""
        over = self.load / (self.run.power or max(1, self.run.cores))
        over = over if over > _OVERLOADED else 1.0
        if abs(over - self.pace) > _SAME_PACE * self.pace or (over == 1.0) != (self.pace == 1.0):
            self.pace = over
            for work in self.works:
                self._pace(now, work, work is new)
        elif new is not None:
            self._pace(now, new, True)

    def _pace(self, now: float, work: _Work, is_new: bool) -> None:
        own = min(1.0, work.load)
        rate = 1.0 / ((1.0 - own) + own * self.pace)
        if not is_new and abs(rate - work.rate) < 1e-9:
            return
        work.remaining -= (now - work.at) * work.rate
        work.at, work.rate = now, rate
        work.version += 1
        self.at(now + max(0.0, work.remaining) / rate, self._finisher(work, work.version))

    def _finisher(self, work: _Work, version: int) -> Callable[[float], None]:
        def finish(now: float) -> None:
            if work.version == version:
                work.version = -1
                self.works.discard(work)
                self.load = max(0.0, self.load - work.load)
                self._paced(now, None)
                work.then(now)

        return finish

    # ------------------------------------------------------------------ tasks
    def _submit(self, key: int, now: float) -> None:
        if self.submitted[key]:
            return
        self.submitted[key] = True
        node = self.nodes[key]
        missing = 0
        for dep in node.deps:
            if not self.done[dep] and dep in self.reachable:
                self.followers.setdefault(dep, []).append(key)
                missing += 1
        self.missing[key] = missing
        if not missing:
            self._queue(key, now)

    def _queue(self, key: int, now: float) -> None:
        node = self.nodes[key]
        if node.kind == CALL and node.actor in self.actors:
            self.actors[node.actor].queue.append(key)
            self._serve(node.actor, now)
            return
        shape = tuple(sorted(node.resources.items()))
        self._wants(key, shape, now)

    def _wants(self, key: int, shape: tuple[tuple[str, float], ...], now: float) -> None:
        if shape not in self.requests:
            self.requests[shape] = TaskTurns()
        self.requests[shape].add(self.nodes[key].owner, key, now)
        self.queued.add(key)
        self._dispatch(now)

    def _dispatch(self, now: float, left_by: RunNode | None = None) -> None:
        owner = left_by.owner if left_by is not None else b""
        for shape, requests in self.requests.items():
            while requests and all(self.free.get(name, amount) >= amount - 1e-9 for name, amount in shape):
                key = requests.take(now, owner)
                node = self.nodes[key]
                if key in self.queued:
                    self.queued.discard(key)
                    self._take(node)
                    self._begin(node, now)
                else:  # the task that waits for it runs it
                    requests.returned(node.owner)

    def _take(self, node: RunNode) -> None:
        for name, amount in node.resources.items():
            if name in self.free:
                self.free[name] -= amount

    def _release(self, node: RunNode, now: float) -> None:
        self._give_back(node)
        self._dispatch(now)

    def _give_back(self, node: RunNode) -> None:
        for name, amount in node.resources.items():
            if name in self.free:
                self.free[name] += amount

    def _leave(self, node: RunNode, now: float) -> None:
        """A task has ended: its process has another one run with the same resources, if it has one."""
        self._give_back(node)
        requests = self.requests.get(tuple(sorted(node.resources.items())))
        if requests is not None:
            requests.returned(node.owner)
        self._dispatch(now, node)

    def _begin(self, node: RunNode, now: float) -> None:
        """A task has its resources: it starts when a worker is there."""
        costs = self.run.costs
        if node.kind == CREATE:  # its resources are its own from now on, also while its process starts
            lag = node.lag_s if node.lag_s >= 0 else costs.create_s
            if (
                node.lag_s < 0
            ):  # a worker that the run did not have: its process has to start, beside the others
                self.at(now + self._from_node(now, lag), partial(self._boot, partial(self._run, node, 0.0)))
                return
            lag = self._from_node(now, lag)
            if self.ready_at < 0:
                self.ready_at = now + lag
            self.at(now + lag, partial(self._run, node, 0.0))
        elif self.idle:
            self.idle -= 1
            self._given(node, now)
        else:
            self.line[not node.is_first][node.key] = None
            self._start_workers(now)

    # ------------------------------------------------------------------ workers
    def _from_node(self, now: float, lag: float) -> float:
        """How long a worker takes to start: the node, that starts it, may have to start first."""
        costs = self.run.costs
        if costs.node_s:
            return max(0.0, costs.node_s - now) + lag
        return max(lag, min(costs.ready_s, READY_S) - now)

    def _given(self, node: RunNode, now: float) -> None:
        """A worker that has run tasks takes this one."""
        lag, extra = node.lag_s, 0.0
        if node.is_first:  # the task had to wait for its worker in the run, and need not now
            lag = self.run.costs.busy_s if self.ends_at == now else self.run.costs.idle_s
            extra = -min(self.run.warm.get(node.name, 0.0), node.work_s)
        self.at(now + lag, partial(self._run, node, extra))

    def _start_workers(self, now: float) -> None:
        """Start as many workers as tasks wait for one, but no more at a time than the node does."""
        costs = self.run.costs
        while self.starting < len(self.line[0]) + len(self.line[1]):
            is_new = self.boots >= len(self.lags)  # a worker that the run did not have
            if is_new and self.starting >= _STARTING * self.run.cores:
                return  # the recorded start of the other workers contains their wait for a turn
            lag = self._from_node(now, costs.boot_s if is_new else self.lags[self.boots])
            if is_new:  # there is no worker before the session's first one
                lag = max(lag, self.ready_at - now)
            self.starting += 1
            self.boots += 1
            if is_new and costs.boot_cpu_s and self.ready_at >= 0:
                self.at(now + lag, partial(self._boot, self._started))
                continue
            if self.ready_at < 0:
                lag = max(lag, self._from_node(now, costs.first_s)) if is_new else lag
                self.ready_at = now + lag
            self.at(now + lag - min(lag, BOOT_MOST_S), partial(self._crowd, 1.0))
            self.at(now + lag, partial(self._crowd, -1.0))
            self.at(now + lag, self._started)

    def _crowd(self, load: float, now: float) -> None:
        """A process that starts keeps others from a core; its own time is recorded."""
        self.load = max(0.0, self.load + load)
        self._paced(now, None)

    def _started(self, now: float) -> None:
        """A new worker is there: it takes the first task that waits for one, or idles."""
        self.starting -= 1
        key = next(iter(self.line[0] or self.line[1]), -1)
        if key < 0:
            self.idle += 1
        else:
            self._leave_line(key)
            node = self.nodes[key]
            self._run(node, 0.0 if node.is_first else self.run.warm.get(node.name, 0.0), now)
        self._start_workers(now)

    def _worker_free(self, now: float) -> None:
        """A worker has ended its task: it takes the next that waits for a worker, or idles."""
        key = next(iter(self.line[1] or self.line[0]), -1)
        if key < 0:
            self.idle += 1
        else:
            self._leave_line(key)
            self._given(self.nodes[key], now)

    def _in_line(self, key: int) -> bool:
        return key in self.line[0] or key in self.line[1]

    def _leave_line(self, key: int) -> None:
        self.line[0].pop(key, None)
        self.line[1].pop(key, None)

    def _is_like(self, child: RunNode, node: RunNode) -> bool:
        return child.kind == TASK and child.name == node.name and child.resources == node.resources

    def _boot(self, then: Callable[[float], None], now: float) -> None:
        """A process starts: it needs a core for a moment."""
        if self.run.costs.boot_cpu_s:
            self._work(now, self.run.costs.boot_cpu_s, 1.0, then)
        else:
            then(now)

    def _serve(self, actor_id: bytes, now: float) -> None:
        actor = self.actors[actor_id]
        while actor.queue and actor.ready and (actor.many or not actor.busy):
            actor.busy = True
            node = self.nodes[actor.queue.popleft()]
            lag = node.lag_s
            self.at(now + lag, partial(self._run, node, 0.0))

    def _run(self, node: RunNode, extra: float, now: float) -> None:
        self.starts[node.key] = now
        self.running[node.key] = node.peak_bytes
        total = self.run.base_bytes + sum(self.running.values())
        limit = self.run.memory_limit
        if limit and total > limit and node.kind == TASK:
            if len(self.running) > 1:
                self._kill(node, now, total)
                return
            self.too_large.append(node.key)
        self.bytes.append((now, total))

        def ended(moment: float) -> None:
            self._ended(node, moment)

        wasted = min(node.wasted_s, node.work_s)
        failures, made = max(1, node.attempts - 1), self.again.get(node.key, 0)
        if wasted > 0 and node.kind == TASK and made < failures:
            self.again[node.key] = made + 1
            self._work(now, wasted / failures + extra, node.load, partial(self._try_again, node))
        elif node.program is not None:
            ops = [Op(COMPUTE, extra), *node.program] if extra > 0 else node.program
            self._stepper(ops, ended, node, node.load)(now)
        else:
            left = node.work_s - wasted if node.key in self.again else node.work_s
            self._work(now, max(0.0, left + extra), node.load, ended)

    def _try_again(self, node: RunNode, now: float) -> None:
        """An attempt has failed: its worker is free, and the next one stands in line behind the others."""
        self.running.pop(node.key, None)
        self._worker_free(now)
        self._leave(node, now)
        shape = tuple(sorted(node.resources.items()))
        self.at(now + node.pause_s / max(1, node.attempts - 1), partial(self._wants, node.key, shape))

    def _kill(self, node: RunNode, now: float, total: int) -> None:
        """Memory is short: the monitor kills the task that began last (half-way, as a guess); it runs again later."""
        self.killed.append(node.key)
        self.bytes.append((now, min(total, self.run.memory_limit)))
        self.running.pop(node.key)

        def gone(moment: float) -> None:
            self._leave(node, moment)
            self.parked.append(node.key)
            self._unpark(moment)

        self.at(now + node.work_s / 2, gone)

    def _unpark(self, now: float) -> None:
        """Tasks that were killed run again, one at a time, when there is room for them."""
        while self.parked:
            node = self.nodes[self.parked[0]]
            used = self.run.base_bytes + sum(self.running.values())
            if self.running and used + node.peak_bytes > self.run.memory_limit:
                return
            self.parked.popleft()
            self._wants(node.key, tuple(sorted(node.resources.items())), now)

    def _ended(self, node: RunNode, now: float) -> None:
        key = node.key
        self.done[key] = True
        self.ends[key] = self.ends_at = now
        self.running.pop(key, None)
        self.bytes.append((now, self.run.base_bytes + sum(self.running.values())))
        if node.actor:
            self.left[node.actor] -= 1
            if not self.left[node.actor] and node.actor in self.made:
                self._release(self.made[node.actor], now)  # its last call has ended, so the actor ends
        if node.kind == CALL:
            actor = self.actors.get(node.actor)
            if actor is not None:
                actor.busy = False
                self._serve(node.actor, now)
        elif node.kind == CREATE:
            self.actors[node.actor].ready = True
            self._serve(node.actor, now)
        elif key in self.inside:
            self.inside.discard(key)  # the task that waited for it goes on, with the same CPU
        else:
            self._worker_free(now)
            self._leave(node, now)
        for follower in self.followers.pop(key, ()):
            self.missing[follower] -= 1
            if not self.missing[follower]:
                self.at(now + self.nodes[follower].delay_s, partial(self._queue, follower))
        for waiter in self.waiters.pop(key, ()):
            waiter(now)
        if self.parked:
            self._unpark(now)


def totals(run: Run) -> Mapping[str, float]:
    """Seconds of work by function."""
    found: dict[str, float] = {}
    for node in run.nodes:
        found[node.name] = found.get(node.name, 0.0) + node.work_s
    return found
