"""The node's scheduler as a pure machine: which owner gets which worker, with which resources, and when.

    owners ──want / release──►┌────────┐──Grant / Reclaim / Infeasible──► owners
    workers ─blocked─unblocked►│ Leases │──StartWorker / StopWorker──────► zygote, processes
    kernel ──worker_died──────►└────────┘──GroupReady / GroupRemoved─────► the process that waits for the group

Owns: the resources of all nodes, their workers, every lease, the queues of requests, placement groups.
Refuses: sockets, processes, clocks (``now`` is given), and what runs on a lease: that is between owner and
worker. Runs in the node program, on its only thread; every event returns the instructions to carry out, in
order. What each instruction asks for stands with it in ``instructions.py``; all of them can be imported
from here.

How a request becomes a grant: ``want`` queues it; when a pool has room its resources are drawn at once;
then it gets a warm worker, or waits for one to start. So resources are never promised twice, and
StartWorker is only sent for work that can run.

Rules for the caller:
- ``want`` *sets* how many more leases are wanted; every Grant lowers that number by one. Setting it again
is harmless.
- An owner that hears of its grants later says with each ``want`` which Grant it had read last. Those that were still
  on their way are taken off the number, for the owner could not: else four tasks get five workers.
- After StopWorker, report ``worker_died`` when the process is gone, as for every other death. Only then do
the
  resources of its lease come back.
- A started process that dies before it reported counts as ``worker_start_failed``.
- When a worker dies that is an owner too, report both ``worker_died`` and ``owner_died``.
- Late, duplicate and unknown events change nothing and return ``[]``.
- Call ``tick`` every 100 ms or so while ``busy()``, and every few seconds otherwise.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from sundog.plain import plain
from sundog.state import starvation
from sundog.state.granting import Granting
from sundog.state.instructions import (
    GROUP_REMOVED,
    Grant,
    GroupReady,
    GroupRemoved,
    Infeasible,
    Instruction,
    LeaseSpec,
    Reclaim,
    StartWorker,
    StopWorker,
)
from sundog.state.nodes import Backoff, KnownNode, Worker
from sundog.state.resources import ResourcePool, demand_of
from sundog.state.shapes import Want
from sundog.state.status import (
    GroupRow,
    HeldRow,
    WaitingRow,
    group_resources,
    group_rows,
    held_rows,
    waiting_rows,
)
from sundog.state.tenants import TenantRow

if TYPE_CHECKING:
    from sundog.state.wait_facts import Shortage

__all__ = [
    "GROUP_REMOVED",
    "Grant",
    "GroupReady",
    "GroupRemoved",
    "GroupRow",
    "HeldRow",
    "Infeasible",
    "Instruction",
    "LeaseSpec",
    "Leases",
    "Reclaim",
    "StartWorker",
    "StopWorker",
    "WaitingRow",
    "WorkerCounts",
]

FIRST_BACKOFF_S = 0.1
LAST_BACKOFF_S = 10.0


def _start_delay_s(failures: int) -> float:
    return min(FIRST_BACKOFF_S * 2.0 ** min(failures - 1, 16), LAST_BACKOFF_S)


@plain(frozen=True)
class WorkerCounts:
    """How many processes there are, by what they do."""

    idle: int
    leased: int
    blocked: int
    starting: int
    stopping: int


class Leases(Granting):
    """See the module's docstring.

    Args:
        starting_max: worker processes that may be starting at the same time on one node.
        worker_max: processes on one node, those blocked in a get left out (they wait for others, and
        counting them
            could deadlock); 0 = as many as the resources allow.
        idle_worker_s: how long a worker may idle before it is stopped.
        keep: idle workers per node that are kept warm for longer, the most recently used ones.
    """

    def __init__(
        self, *, starting_max: int, worker_max: int, idle_worker_s: float = 60.0, keep: int = 2
    ) -> None:
        super().__init__(max(1, starting_max), worker_max)
        self._idle_worker_s = idle_worker_s
        self._keep = keep

    # ------------------------------------------------------------------ nodes

    def add_node(
        self,
        node_id: bytes,
        totals: Mapping[str, float],
        labels: Mapping[str, str] | None = None,
        now: float = 0.0,
    ) -> list[Instruction]:
        """A machine joined with these resources."""
        if node_id in self._nodes:
            return []
        self._nodes[node_id] = KnownNode(node_id, ResourcePool(demand_of(totals)), dict(labels or {}))
        out: list[Instruction] = []
        self._topology_changed(out)
        self._schedule_all(now, out)
        return out

    def remove_node(self, node_id: bytes, now: float = 0.0) -> list[Instruction]:
        """A machine is gone, with all its workers and leases; bundles on it look for another place."""
        node = self._nodes.pop(node_id, None)
        if node is None:
            return []
        for lease in list(node.leases.values()):
            if lease.worker is None:
                self._unassign(lease)
            else:
                self._forget(lease)
        for worker in node.workers:
            del self._workers[worker]
            self._remember_gone(worker)
        self._reserved = [pool for pool in self._reserved if pool is not node.pool]
        self._groups.node_lost(node, now)
        out: list[Instruction] = []
        self._topology_changed(out)
        self._schedule_all(now, out)
        return out

    def drain_node(self, node_id: bytes, now: float = 0.0) -> list[Instruction]:
        """A node is to leave: nothing more is placed on it, and its idle workers stop."""
        node = self._nodes.get(node_id)
        if node is None or node.draining:
            return []
        node.draining = True
        out: list[Instruction] = []
        for lease in list(node.leases.values()):
            if lease.worker is None:
                self._unassign(lease)
        self._topology_changed(out)
        self._schedule_all(now, out)
        return out

    def tasks_on(self, node_id: bytes) -> int:
        """How many leases of tasks a node still holds; those of actors end with the node."""
        node = self._nodes.get(node_id)
        return (
            sum(not lease.shape.spec.permanent for lease in node.leases.values()) if node is not None else 0
        )

    # ------------------------------------------------------------------ owners

    def want(
        self,
        owner: bytes,
        key: Hashable,
        spec: LeaseSpec,
        count: int,
        now: float,
        weight_job: str = "",
        last_grant: int | None = None,
    ) -> list[Instruction]:
        """Set how many more leases ``owner`` wants for ``key``; 0 withdraws the request.

        Owners of one ``weight_job`` share that job's turn: a job with many owners gets no more than a job
        with one. ``last_grant`` is the number of the last Grant that the owner had read, of whatever key (None: it
        has read all of them). It may be lower than that: the next one corrects it.
        """
        out: list[Instruction] = []
        if last_grant is not None and count > 0:
            count -= self._unread(owner, key, spec, last_grant)
        wants = self._wants.get(owner)
        want = wants.get(key) if wants is not None else None
        if want is not None and want.shape.spec != spec:
            self._withdraw(want)
            self._schedule_all(now, out)
            want = None
        if want is None:
            if count <= 0:
                return out
            shape = self._shape(spec)
            self._turns += 1
            want = Want(owner, key, shape, weight_job, 0, now, self._turns)
            self._wants.setdefault(owner, {})[key] = want
        self._set_count(want, max(0, count), now, out)
        return out

    def release(self, lease: int, now: float, reusable: bool = True) -> list[Instruction]:
        """The owner gives ``lease`` back; its worker serves others, or ends when it is not ``reusable``."""
        held = self._leases.get(lease)
        if held is None or held.worker is None or held.ended:
            return []
        out: list[Instruction] = []
        worker = held.worker
        if not reusable:
            self._end_lease(held, "not reusable", out)
            return out
        self.tenants.returned(held, self._nodes.values(), self._waiting, now)
        held.give_back()
        self._forget(held)
        worker.lease = None
        self._set_blocked(worker, False)
        if worker.retired:
            # The worker has no resources any more and may end late: other processes may rely on objects that
            # it owns.
            self._stop(worker, "retired", out)
        else:
            self._offer(worker, now, out)
        self._schedule_all(now, out)
        return out

    def owner_died(self, owner: bytes, now: float) -> list[Instruction]:
        """A process that asked for leases is gone: so are its requests, groups, and the workers it used."""
        out: list[Instruction] = []
        for want in list(self._wants.get(owner, {}).values()):
            self._withdraw(want)
        for group in self._groups.of_owner(owner):
            if group.lifetime != "detached":
                self._remove_group(group.pg_id, out)
        for lease in list(self._owned.get(owner, {}).values()):
            if not lease.ended:
                self._end_lease(lease, "owner died", out)
        self._schedule_all(now, out)
        return out

    # ------------------------------------------------------------------ workers

    def worker_started(self, worker: bytes, node_id: bytes, env_key: str, now: float) -> list[Instruction]:
        """A process came up and is idle: one that StartWorker asked for, or one started ahead of need."""
        node = self._nodes.get(node_id)
        if node is None or worker in self._workers:
            return []
        if worker in self._gone:  # its death was reported before its start
            return self.worker_start_failed(node_id, env_key, now)
        self._start_ended(node, env_key)
        node.backoffs.pop(env_key, None)
        found = node.workers[worker] = self._workers[worker] = Worker(worker, node, env_key)
        out: list[Instruction] = []
        self._offer(found, now, out)
        self._schedule_all(now, out)
        return out

    def prestart(self, node_id: bytes, env_key: str, now: float) -> list[Instruction]:
        """Start one process ahead of need; the first requests of its environment will find it."""
        node = self._nodes.get(node_id)
        if node is None or self._full(node) or node.starting_count >= self._starting_max:
            return []
        node.starting[env_key] = node.starting.get(env_key, 0) + 1
        node.starting_count += 1
        return [StartWorker(node_id, env_key)]

    def worker_start_failed(self, node_id: bytes, env_key: str, now: float) -> list[Instruction]:
        """A process that StartWorker asked for did not come up. The start is tried again, later each time."""
        node = self._nodes.get(node_id)
        if node is None or not self._start_ended(node, env_key):
            return []
        failures = node.backoffs[env_key].failures + 1 if env_key in node.backoffs else 1
        node.backoffs[env_key] = Backoff(failures, now + _start_delay_s(failures))
        # The resources are returned in the meantime: a broken environment must not block other tasks.
        surplus = len(node.pending.get(env_key, ())) - node.starting.get(env_key, 0)
        for lease in reversed(list(node.pending.get(env_key, {}).values())):
            if surplus <= 0:
                break
            surplus -= 1
            self._unassign(lease)
        out: list[Instruction] = []
        self._schedule_all(now, out)
        return out

    def delay_starts(self, node_id: bytes, env_key: str, failures: int, now: float) -> None:
        """Several processes in a row ended before they served this environment: wait before the next start."""
        node = self._nodes.get(node_id)
        if node is not None:
            node.backoffs[env_key] = Backoff(failures, now + _start_delay_s(failures))

    def worker_died(self, worker: bytes, now: float) -> list[Instruction]:
        """A process ended, for any reason: what it held is free."""
        self._remember_gone(worker)
        found = self._workers.pop(worker, None)
        if found is None:
            return []
        node = found.node
        node.drop_idle(found)
        del node.workers[worker]
        self._set_blocked(found, False)
        node.stopping_count -= found.stopping
        if found.lease is not None:
            found.lease.give_back()
            self._forget(found.lease)
        out: list[Instruction] = []
        self._schedule_all(now, out)
        return out

    def blocked(self, worker: bytes, now: float, *, keeps_cpu: bool = False) -> list[Instruction]:
        """The worker waits in a get: others may use its CPU (nothing else of it) meanwhile; an actor keeps its own."""
        found = self._workers.get(worker)
        if found is None or found.blocked or found.lease is None or found.stopping:
            return []
        self._set_blocked(found, True)
        lease = found.lease
        if not keeps_cpu:
            lease.cpu_lent = True
            lease.pool.lend_cpu(lease.holding.cpu)
            self.tenants.lent(lease, is_lent=True)
        out: list[Instruction] = []
        self._schedule_all(now, out)
        return out

    def unblocked(self, worker: bytes, now: float) -> list[Instruction]:
        """The worker continues. The worker has its CPU at once, taken or not: waiting for the CPU could deadlock."""
        found = self._workers.get(worker)
        if found is None or not found.blocked or found.lease is None or found.stopping:
            return []
        self._set_blocked(found, False)
        if found.lease.cpu_lent:
            found.lease.cpu_lent = False
            found.lease.pool.force_cpu(found.lease.holding.cpu)
            self.tenants.lent(found.lease, is_lent=False)
        return []

    def retire_worker(self, worker: bytes) -> list[Instruction]:
        """One worker serves no new lease (its code is out of date); it stops when it is idle."""
        out: list[Instruction] = []
        found = self._workers.get(worker)
        if found is not None and not found.stopping:
            found.retired = True
            if found.lease is None:
                self._stop(found, "retired", out)
        return out

    def retire_holder(self, lease: int) -> None:
        """The worker of ``lease`` serves no other after it."""
        held = self._leases.get(lease)
        if held is not None and held.worker is not None:
            held.worker.retired = True

    # ------------------------------------------------------------------ placement groups

    def create_group(
        self,
        pg_id: bytes,
        bundles: Sequence[Mapping[str, float]],
        strategy: str,
        owner: bytes,
        now: float,
        name: str = "",
        lifetime: str = "",
        label_selectors: Iterable[Mapping[str, str] | Sequence[tuple[str, str]]] = (),
        namespace: str = "",
        soft_target: bytes = b"",
        topology: str = "",
    ) -> list[Instruction]:
        """Set aside ``bundles``, all or none; GroupReady follows, now or as soon as there is room.

        Raises:
            ValueError: unknown strategy, a name that is taken, or a bundle without resources.
        """
        out: list[Instruction] = []
        if self._groups.create(
            pg_id,
            bundles,
            strategy,
            owner,
            now,
            name,
            lifetime,
            label_selectors,
            namespace,
            soft_target,
            topology,
        ):
            self._topology_changed(out)
            self._schedule_all(now, out)
        return out

    def remove_group(self, pg_id: bytes, now: float) -> list[Instruction]:
        """Dissolve a group: its workers are stopped, requests for it become infeasible."""
        out: list[Instruction] = []
        if self._remove_group(pg_id, out):
            self._schedule_all(now, out)
        return out

    # ------------------------------------------------------------------ time

    def tenant_rows(self) -> list[TenantRow]:
        """What each job that shares the CPUs has and waits for."""
        return self.tenants.rows(self._waiting)

    def tick(self, now: float) -> list[Instruction]:
        """Let time pass: collect idle workers, retry failed starts, check for requests that starve."""
        out: list[Instruction] = []
        for node in self._nodes.values():
            self._collect_idle(node, now, out)
        kept = starvation.reserve(
            self._waiting,
            self._groups.incomplete,
            list(self._nodes.values()),
            self._reserved,
            self._held,
            now,
            lambda want: self.tenants.entitled(want, self._nodes.values(), self._waiting),
        )
        self._schedule_all(now, out)
        out += starvation.reclaim(kept, self._owned, self._held, now)
        for node in self._nodes.values():
            self._reclaim_process(node, now, out)
        return out

    def _collect_idle(self, node: KnownNode, now: float, out: list[Instruction]) -> None:
        for worker in list(node.idle.values())[: max(0, len(node.idle) - self._keep)]:
            if now - worker.idle_since < self._idle_worker_s:
                break  # the remaining workers have been idle for less time
            self._stop(worker, "idle", out)

    # ------------------------------------------------------------------ questions

    def busy(self) -> bool:
        """Whether anyone waits: then ``tick`` matters within a fraction of a second."""
        return bool(
            self._waiting or self._groups.incomplete or any(node.pending for node in self._nodes.values())
        )

    def totals(self, node_id: bytes | None = None) -> dict[str, float]:
        """Return what there is, of all nodes or of one."""
        return self._sum(node_id, free=False)

    def available(self, node_id: bytes | None = None) -> dict[str, float]:
        """Return what is free now, of all nodes or of one; bundles of placement groups count as used."""
        return self._sum(node_id, free=True)

    def group_resources(self, *, free: bool) -> dict[str, float]:
        """Return what the bundles of placement groups have in all, or have free, under Ray's names."""
        return group_resources(self._groups, free=free)

    def table(self, now: float) -> list[WaitingRow]:
        """Return every request that waits, with how long and why, the oldest first."""
        return waiting_rows(
            (want for wants in self._wants.values() for want in wants.values()), self._worker_max, now
        )

    def depth(self, owner: bytes) -> int:
        """Return how deep the requests of an owner are nested: 1 of a driver, 2 of a task that a driver submitted."""
        depth = 1
        while (worker := self._worker_of(owner)) is not None and worker.lease is not None:
            owner = worker.lease.owner
            depth += 1
        return depth

    def _worker_of(self, owner: bytes) -> Worker | None:
        return next((node.workers[owner] for node in self._nodes.values() if owner in node.workers), None)

    def shortage(self, owner: bytes, key: Hashable) -> Shortage | None:
        """Return what a waiting request lacks and which leases have it; None if it may continue without help."""
        from sundog.state import shortage  # rarely needed, and start-up time counts

        want = self._wants.get(owner, {}).get(key)
        if want is None:
            return None
        strategy = want.shape.spec.strategy
        group = self._groups.get(strategy[1]) if strategy[0] == "pg" else None  # type: ignore[arg-type]
        if group is not None and want.shape.waiting_for:
            return shortage.of_group(group, list(self._nodes.values()), self._groups)
        return shortage.of_want(want, self._groups)

    def starting(self) -> bool:
        """Whether a worker is on its way, or a request has what it needs and waits for one."""
        return any(
            node.starting_count or node.pending or node.stopping_count for node in self._nodes.values()
        )

    def held(self, now: float) -> list[HeldRow]:
        """Return every lease in use."""
        return held_rows(self._leases.values(), now)

    def spec_of(self, lease: int) -> LeaseSpec | None:
        """Return what a granted lease was asked for with."""
        held = self._leases.get(lease)
        return None if held is None else held.shape.spec

    def lease_count(self) -> int:
        """Return how many leases are in use."""
        return len(self._leases)

    def idle_workers(self) -> list[bytes]:
        """Return the workers without a lease."""
        return [worker for node in self._nodes.values() for worker in node.idle]

    def group_table(self) -> list[GroupRow]:
        """Return every placement group, the removed ones included, with the node of each bundle."""
        return group_rows(self._groups, list(self._nodes.values()))

    def group(self, pg_id: bytes) -> GroupRow | None:
        """Return the row of one placement group."""
        group = self._groups.get(pg_id)
        return None if group is None else group_rows([group], list(self._nodes.values()))[0]

    def group_named(self, name: str, namespace: str = "") -> bytes | None:
        """Return the placement group that has this name in this namespace now."""
        group = self._groups.named(name, namespace)
        return None if group is None else group.pg_id

    def worker_counts(self, node_id: bytes) -> WorkerCounts:
        """Return how many processes the node has, by what they do."""
        node = self._nodes[node_id]
        stopping = node.stopping_count
        leased = sum(1 for w in node.workers.values() if w.lease is not None and not w.stopping)
        return WorkerCounts(len(node.idle), leased, node.blocked_count, node.starting_count, stopping)
