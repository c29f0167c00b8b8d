"""Whom the memory monitor ends, and when: readings and candidates in, instructions out.

::

    CALM ──look: above──► ASKING ──told──► RETIRING (idle workers) ──gone, or too slow──┐
      ▲    Freeze, Ask                └──► ENDING (one process)    ──dead──────────────►┤ look again
      └────────────── look: below: Thaw ◄───────────────────────────────────────────────┘

A process that was told to end gives its memory back bit by bit. Use may be below the limit for a moment, so that tasks
continue, and above it again before the process has given all of its memory back: then the tasks are stopped once more,
and no other process is ended, until this process is dead and its memory is free.

Owns: the threshold, the order (idle, then what can be tried again, then the most recently started), one at a time,
and how a task that is ended may be tried again. While it decides, what runs is stopped, so that memory cannot fill
up under its hands; it continues as soon as there is room. Refuses: reading, signals, processes and clocks (``now`` is
given). Runs in the node program, on its only thread.
"""

from __future__ import annotations

from collections.abc import Iterable

from sundog.plain import plain

# How a task that was ended for memory may be tried again.
FREE = "free"  # other tasks still run and will release memory: as often as task_oom_retries allows
COUNTED = "counted"  # no running task will release memory: within the task's own max_retries
NEVER = "never"  # the task alone fills most of the memory, or exceeded its own request

ENDING_PATIENCE_S = 2.0
RETIRING_PATIENCE_S = 0.2
ASKING_PATIENCE_S = 0.5
# After a death the memory of the process may be counted a little longer, for example while another process,
# which may wait for a core, reads its figures. The monitor waits at most this long until half of that memory
# is free.
SETTLING_S = 1.0
HELPLESS_S = 1.0
LEAST_ROOM_BYTES = 64 << 20

CALM, ASKING, RETIRING, ENDING = "calm", "asking", "retiring", "ending"


class Candidate:
    """A worker that could be ended.

    ``retriable``: its task has attempts left, or its actor restarts. ``lasting``: it will not end by itself soon,
    being an actor or blocked in a get. ``started_at`` is the start of its task, or of its actor.
    """

    __slots__ = ("idle", "lasting", "own_bytes", "retriable", "started_at", "worker")

    def __init__(
        self,
        worker: bytes,
        own_bytes: int,
        started_at: float,
        *,
        idle: bool = False,
        retriable: bool = True,
        lasting: bool = False,
    ) -> None:
        self.worker = worker
        self.own_bytes = own_bytes
        self.started_at = started_at
        self.idle = idle
        self.retriable = retriable
        self.lasting = lasting


class MemoryInstruction:
    """What the monitor asks the node program to do: one of the four below, or one with particulars."""

    __slots__ = ()


FREEZE = MemoryInstruction()
"""Stop every process that runs a task or an actor, without ending it."""
THAW = MemoryInstruction()
"""Let what was stopped go on."""
ASK = MemoryInstruction()
"""Find out what runs; answer with ``told``."""
HELPLESS = MemoryInstruction()
"""Memory is short, and nothing of ours could be ended to change that."""


@plain(frozen=True)
class Retire(MemoryInstruction):
    """Ask these idle workers to end (they may refuse: others may rely on what they own); report ``died``."""

    workers: tuple[bytes, ...]


@plain(frozen=True)
class End(MemoryInstruction):
    """End this worker now, for this reason; report ``died`` when it is gone."""

    worker: bytes
    own_bytes: int
    why: str
    retry: str


class Monitor:
    """See the module's docstring.

    Args:
        threshold: the share of memory above which something is ended.
        min_free_bytes: if not negative, so much may be left free at most before the threshold counts: it moves the
            limit up on large machines.
        idle_bytes: an idle worker with less memory of its own is not worth ending.
    """

    def __init__(self, threshold: float, min_free_bytes: int = -1, idle_bytes: int = 16 << 20) -> None:
        self.threshold = threshold
        self.min_free_bytes = min_free_bytes
        self.idle_bytes = idle_bytes
        self.state = CALM
        self.frozen = False
        self._since = 0.0
        self._settling_since: float | None = None
        self._used_bytes = 0  # at the last check
        self._goal_bytes = 0  # use below which the memory of the processes told to end counts as free
        self._waiting: set[bytes] = set()
        self._given_up: set[bytes] = set()

    def limit(self, total_bytes: int) -> int:
        """The most that may be in use.

        Room is left for what is written while we act, or the kernel would act first: in a small control group 5 % are
        filled within a few milliseconds.
        """
        limit = int(total_bytes * self.threshold)
        if self.threshold < 1.0:
            limit = min(limit, total_bytes - min(LEAST_ROOM_BYTES, total_bytes // 4))
        return max(limit, total_bytes - self.min_free_bytes) if self.min_free_bytes >= 0 else limit

    def look(self, used_bytes: int, total_bytes: int, now: float) -> list[MemoryInstruction]:
        """A reading came in."""
        self._used_bytes = used_bytes
        above = used_bytes > self.limit(total_bytes)
        if self._is_leaving(now):
            return self._freeze() if above else self._thaw()
        if not above:
            self.state = CALM
            return self._thaw()
        if now < self._since + (ASKING_PATIENCE_S if self.state == ASKING else 0.0):
            return []
        self.state, self._since = ASKING, now
        return [*self._freeze(), ASK]

    def told(self, candidates: Iterable[Candidate], limit_bytes: int, now: float) -> list[MemoryInstruction]:
        """What runs is known: choose."""
        if self.state != ASKING:
            return []
        left = [each for each in candidates if each.worker not in self._given_up]
        idle = [each for each in left if each.idle and each.own_bytes >= self.idle_bytes]
        if idle:
            self.state, self._since = RETIRING, now
            self._expect(idle)
            return [Retire(tuple(each.worker for each in idle))]
        running = [each for each in left if not each.idle]
        if not running:
            self.state, self._since = CALM, now + HELPLESS_S
            return [*self._thaw(), HELPLESS]
        end = choose(running, limit_bytes)
        self.state, self._since = ENDING, now
        self._expect([each for each in running if each.worker == end.worker])
        return [end]

    def died(self, worker: bytes) -> bool:
        """A process ended; whether the monitor waited for that and wants to look again at once."""
        self._given_up.discard(worker)
        if worker not in self._waiting:
            return False
        self._waiting.discard(worker)
        return not self._waiting

    def _expect(self, leaving: list[Candidate]) -> None:
        self._waiting = {each.worker for each in leaving}
        self._settling_since = None
        # Half: a part of a process's memory may be shared, and other processes may allocate in the meantime.
        self._goal_bytes = self._used_bytes - sum(each.own_bytes for each in leaving) // 2

    def _is_leaving(self, now: float) -> bool:
        """Whether memory of processes that were told to end is still to come, and worth waiting for."""
        if self.state not in (RETIRING, ENDING):
            return False
        if self._waiting:
            patience = RETIRING_PATIENCE_S if self.state == RETIRING else ENDING_PATIENCE_S
            if now < self._since + patience:
                return True
            # the process lingers, or the kernel cannot end it: choose another victim
            self._given_up |= self._waiting
            self._waiting.clear()
            return False
        if self._settling_since is None:
            self._settling_since = now
        return self._used_bytes > self._goal_bytes and now < self._settling_since + SETTLING_S

    def _freeze(self) -> list[MemoryInstruction]:
        was, self.frozen = self.frozen, True
        return [] if was else [FREEZE]

    def _thaw(self) -> list[MemoryInstruction]:
        was, self.frozen = self.frozen, False
        return [THAW] if was else []


def choose(running: list[Candidate], limit_bytes: int) -> End:
    """Of what runs, the one to end: what can be tried again before what cannot, the newest before the older.

    ``running`` must not be empty.
    """
    retriable = [each for each in running if each.retriable]
    pool = retriable or running
    victim = max(pool, key=lambda each: (each.started_at, each.worker))
    others = [each for each in running if each is not victim and not each.lasting]
    if len(running) == 1:
        why = "nothing else was running that could have been ended instead"
    elif len(retriable) == len(running):
        why = f"it was started last of the {len(running)} running tasks, which can all be tried again"
    elif len(retriable) == 1:
        why = f"it is the only one of the {len(running)} running tasks that can be tried again"
    elif retriable:
        why = f"it was started last of the {len(retriable)} tasks (of {len(running)}) that can be tried again"
    else:
        why = f"it was started last of the {len(running)} running tasks, of which none can be tried again"
    if others:
        retry = FREE
    else:
        retry = NEVER if victim.own_bytes * 2 >= limit_bytes else COUNTED
    return End(victim.worker, victim.own_bytes, why, retry)


def next_look_s(free_bytes: int, refresh_s: float, fill_bytes_per_s: float, least_s: float = 0.01) -> float:
    """When to look again: at the latest after ``refresh_s``, sooner the less memory is left to fill.

    >>> next_look_s(20 << 30, 0.25, 8e9), next_look_s(50 << 20, 0.25, 8e9)
    (0.25, 0.01)
    """
    return max(least_s, min(refresh_s, free_bytes / fill_bytes_per_s / 2))
