"""What the lease machine knows of nodes, their workers, and the leases that bind a worker to an owner.

Owns: the records, and the keeping of idle workers in the order in which they are to be reused or collected.
Refuses: decisions; ``leases.py`` takes them.
Runs in the node program, on its only thread.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable

from sundog.plain import field, plain
from sundog.state.resources import Holding, ResourcePool
from sundog.state.shapes import SpecQueue, Want


@plain(eq=False)
class Worker:
    worker: bytes
    node: KnownNode
    env_key: str
    lease: Lease | None = None
    blocked: bool = False
    stopping: bool = False
    """StopWorker was sent: it is never granted again; what it holds comes back when it has died."""
    retired: bool = False
    """Its code or environment is out of date: it stops instead of becoming idle."""
    idle_since: float = 0.0
    last_owner: bytes = b""
    with_gpu: bool | None = None
    """Whether what it served had a share of an accelerator. None: it has served no lease yet, and may serve either."""

    def suits(self, shape: SpecQueue) -> bool:
        """Whether it may serve ``shape``: libraries see the GPUs of their first moment, so the kinds never mix."""
        return self.with_gpu is None or self.with_gpu == shape.with_gpu


@plain(eq=False)
class Lease:
    """Resources drawn for an owner, and the worker that has them (None while the worker is being started)."""

    lease: int
    owner: bytes
    key: Hashable
    shape: SpecQueue
    want: Want
    node: KnownNode
    pool: ResourcePool
    holding: Holding
    since: float
    worker: Worker | None = None
    cpu_lent: bool = False
    reclaimed: bool = False
    reclaimed_for: str = ""
    """The tenant whose share it was asked back for."""
    grant: int = 0
    """The number of its grant; 0 while it waits for a worker. Lease numbers are not in the order of the grants."""
    ended: bool = False
    """Given back or taken away, but its worker still has to die."""

    def give_back(self) -> None:
        self.pool.give(self.holding, without_cpu=self.cpu_lent)
        self.cpu_lent = False


@plain()
class Backoff:
    """Workers of one env_key failed to start: how often in a row, and when to try again."""

    failures: int
    until: float


@plain(eq=False)
class KnownNode:
    node_id: bytes
    pool: ResourcePool
    labels: dict[str, str]
    set_aside: Counter[str] = field(default_factory=Counter)
    """Units drawn from the pool by bundles of placement groups."""
    workers: dict[bytes, Worker] = field(default_factory=dict)
    leases: dict[int, Lease] = field(default_factory=dict)
    idle: OrderedDict[bytes, Worker] = field(default_factory=OrderedDict)
    """All idle workers, the longest idle first."""
    pending: OrderedDict[str, OrderedDict[int, Lease]] = field(default_factory=OrderedDict)
    """env_key → leases that have their resources and wait for a worker, the oldest first."""
    starting: dict[str, int] = field(default_factory=dict)
    starting_count: int = 0
    backoffs: dict[str, Backoff] = field(default_factory=dict)
    stopping_count: int = 0
    blocked_count: int = 0
    spread_turn: int = 0
    """When it was last chosen by the strategy SPREAD, as a sequence number."""
    draining: bool = False
    """The node is to leave: what runs on it goes on, and nothing more is placed there."""
    reclaimed_at: float = float("-inf")
    """When a lease was last asked back because all the workers that may exist are taken."""
    _idle_by_env: dict[str, OrderedDict[bytes, Worker]] = field(default_factory=dict)
    _idle_by_owner: dict[tuple[str, bytes], OrderedDict[bytes, Worker]] = field(default_factory=dict)

    def process_count(self) -> int:
        """Return the processes that count against the limit: neither the blocked nor the dying."""
        return len(self.workers) - self.stopping_count - self.blocked_count + self.starting_count

    def can_serve(self, shape: SpecQueue, now: float) -> bool:
        """Whether a worker for ``shape`` is idle here or may be started: not while such starts fail."""
        env_key = shape.spec.env_key
        backoff = self.backoffs.get(env_key) if self.backoffs else None
        return (
            backoff is None
            or now >= backoff.until
            or any(worker.suits(shape) for worker in self._idle_by_env.get(env_key, {}).values())
        )

    def put_idle(self, worker: Worker, now: float) -> None:
        worker.idle_since = now
        key = worker.worker
        self.idle[key] = worker
        self._idle_by_env.setdefault(worker.env_key, OrderedDict())[key] = worker
        self._idle_by_owner.setdefault((worker.env_key, worker.last_owner), OrderedDict())[key] = worker

    def take_idle(self, shape: SpecQueue, owner: bytes) -> Worker | None:
        """Return an idle worker that suits ``shape`` for ``owner``, no longer idle.

        LIFO: a warm worker keeps its imports and functions, and those at the other end can expire.
        """
        env_key = shape.spec.env_key
        for warm in (self._idle_by_owner.get((env_key, owner)), self._idle_by_env.get(env_key)):
            for worker in reversed(warm.values()) if warm else ():
                if worker.suits(shape):
                    self.drop_idle(worker)
                    return worker
        return None

    def drop_idle(self, worker: Worker) -> bool:
        """Take ``worker`` off the idle lists; whether it was on them."""
        if self.idle.pop(worker.worker, None) is None:
            return False
        by_env = self._idle_by_env[worker.env_key]
        del by_env[worker.worker]
        if not by_env:
            del self._idle_by_env[worker.env_key]
        by_owner = self._idle_by_owner[worker.env_key, worker.last_owner]
        del by_owner[worker.worker]
        if not by_owner:
            del self._idle_by_owner[worker.env_key, worker.last_owner]
        return True

    def add_pending(self, lease: Lease) -> None:
        self.pending.setdefault(lease.shape.spec.env_key, OrderedDict())[lease.lease] = lease

    def drop_pending(self, lease: Lease) -> None:
        env_key = lease.shape.spec.env_key
        waiting = self.pending[env_key]
        del waiting[lease.lease]
        if not waiting:
            del self.pending[env_key]

    def next_pending(self, env_key: str, worker: Worker | None = None) -> Lease | None:
        """Return the oldest lease that waits for a worker of ``env_key``, or for this one."""
        for lease in self.pending.get(env_key, {}).values():
            if worker is None or worker.suits(lease.shape):
                return lease
        return None
