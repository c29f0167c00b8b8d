"""Jobs that share a session: which job has how many CPUs and how much reserved memory, and which may have more.

Owns: the weight and the limits of each tenant (a submitted job, or a driver by itself), and what its leases hold of
CPUs and of `memory=`. While several tenants have or want leases, each is entitled to a share of all CPUs by its
weight; what one does not use, others may. Refuses: granting and taking back; ``granting.py`` and ``leases.py`` do
that. Runs in the node program, on its only thread. A session with one tenant pays for a dictionary entry for each
lease.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from sundog.plain import plain
from sundog.state.nodes import KnownNode, Lease
from sundog.state.resources import CPU, ResourcePool, from_units, to_units
from sundog.state.shapes import SpecQueue, Want
from sundog.state.starvation import may_ask_back

_WEIGHT = 1.0
# A job that returned a CPU usually wants one again soon. The owner of very many tasks may take longer to
# return one. So a CPU returned by a job within its share is kept for that job this long before jobs beyond
# their share may have it.
KEEP_S = 0.5
MEMORY = "memory"
_HELD_BACK = {
    CPU: "the limit of its job, which uses all the CPUs that it may use (--cpus)",
    MEMORY: "the limit of its job, which has reserved all the memory that it may use (--memory)",
}


@plain(frozen=True)
class Terms:
    """What a tenant was promised, and what it must not exceed."""

    weight: float = _WEIGHT
    cpu_limit: int = 0
    """Units of CPU; 0 = no limit."""
    memory_limit: int = 0
    """Units of memory that its leases may reserve together; 0 = no limit."""


@plain(frozen=True)
class TenantRow:
    """What a tenant has, for people to read."""

    tenant: str
    weight: float
    cpu_limit: float
    cpus: float
    leases: int
    waiting: int
    memory_limit: float = 0.0
    memory_reserved: float = 0.0


class Tenants:
    """All tenants of a session. The empty name stands for all that is no tenant: it has a weight like any other."""

    def __init__(self) -> None:
        self._terms: dict[str, Terms] = {}
        self._held: dict[int, tuple[str, int]] = {}  # lease → tenant, units of CPU that it uses now
        self._reserving: dict[int, int] = {}  # lease → units of memory, of those that reserve any
        self._kept: dict[
            str, tuple[int, float]
        ] = {}  # tenant → units of CPU that are kept for it, and until when
        self.cpu: Counter[str] = Counter()
        self.memory: Counter[str] = Counter()
        self.leases: Counter[str] = Counter()

    def set_terms(self, tenant: str, weight: float, cpus: float, memory_bytes: int = 0) -> None:
        """A tenant came: its weight among the others, the most CPUs and memory that it may use; 0 is no limit."""
        self._terms[tenant] = Terms(
            weight if weight > 0 else _WEIGHT,
            to_units(cpus) if cpus > 0 else 0,
            to_units(memory_bytes) if memory_bytes > 0 else 0,
        )

    def drop(self, tenant: str) -> None:
        """A tenant is gone. What it still holds is counted until it is given back."""
        self._terms.pop(tenant, None)
        self._kept.pop(tenant, None)

    # ------------------------------------------------------------------ what leases hold
    def took(self, lease: Lease) -> None:
        """Resources were drawn for a lease."""
        tenant, units = lease.want.job, lease.holding.cpu
        self._held[lease.lease] = (tenant, units)
        self.cpu[tenant] += units
        self.leases[tenant] += 1
        if tenant in self._kept and lease.pool is lease.node.pool:
            left, until = self._kept[tenant]
            self._kept[tenant] = (max(0, left - units), until)
        if memory := next((amount for name, amount in lease.holding.units if name == MEMORY), 0):
            self._reserving[lease.lease] = memory
            self.memory[tenant] += memory

    def gave(self, lease: Lease) -> None:
        """A lease is over."""
        found = self._held.pop(lease.lease, None)
        if found is None:
            return
        reserved = self._reserving.pop(lease.lease, 0)
        for counter, amount in ((self.cpu, found[1]), (self.leases, 1), (self.memory, reserved)):
            counter[found[0]] -= amount
            if not counter[found[0]]:
                del counter[found[0]]

    def lent(self, lease: Lease, *, is_lent: bool) -> None:
        """The CPU of a lease is used by others while its worker waits, or is used by itself again."""
        found = self._held.get(lease.lease)
        if found is None:
            return
        units = 0 if is_lent else lease.holding.cpu
        self._held[lease.lease] = (found[0], units)
        self.cpu[found[0]] += units - found[1]

    def returned(
        self, lease: Lease, nodes: Iterable[KnownNode], waiting: Iterable[SpecQueue], now: float
    ) -> None:
        """An owner gives a lease back by itself; called before `gave`. If its tenant is within its share, keep it."""
        tenant, units = lease.want.job, lease.holding.cpu
        if not units or not self.several() or tenant not in self._terms or lease.reclaimed_for:
            return
        if lease.cpu_lent or lease.pool is not lease.node.pool:
            return
        if self.cpu[tenant] <= self._share(tenant, nodes, waiting):
            left, until = self._kept.get(tenant, (0, 0.0))
            self._kept[tenant] = ((left if now < until else 0) + units, now + KEEP_S)

    # ------------------------------------------------------------------ which may have more
    def keeps_from(
        self,
        want: Want,
        pool: ResourcePool,
        nodes: Iterable[KnownNode],
        waiting: Iterable[SpecQueue],
        now: float,
    ) -> str:
        """Why a want beyond its tenant's share must leave what is free to tenants that have just returned it; or ""."""
        if not self._kept:
            return ""
        self._kept = {tenant: each for tenant, each in self._kept.items() if each[0] and now < each[1]}
        kept = sum(units for tenant, (units, _) in self._kept.items() if tenant != want.job)
        need = cpu_of(want.shape)
        nodes = list(nodes)
        if not kept or not need or not any(pool is node.pool for node in nodes):
            return ""  # the resources of a placement group are not for others
        if self.cpu[want.job] + need <= self._share(want.job, nodes, waiting):
            return ""
        # A node on which woken workers use more than it has takes nothing from what is free on the others.
        enough = sum(max(0, node.pool.free.get(CPU, 0)) for node in nodes) - kept >= need
        return "" if enough else "a job with less than its share, which used the CPU a moment ago"

    def several(self) -> bool:
        """Whether there is another job to share with."""
        return len(self._terms) > 1

    def rank(self, want: Want) -> float:
        """How much a tenant has for its weight: the least is served first."""
        return self.cpu[want.job] / self._weight(want.job)

    def held_back(self, want: Want) -> str:
        """Why a want must wait though there is room: its tenant has all that it may have; "" if it need not."""
        terms = self._terms.get(want.job)
        if terms is None or not (terms.cpu_limit or terms.memory_limit):
            return ""
        for limit, used, what in (
            (terms.cpu_limit, self.cpu[want.job], CPU),
            (terms.memory_limit, self.memory[want.job], MEMORY),
        ):
            need = units_of(want.shape, what) if limit else 0
            if need and used + need > limit:
                return _HELD_BACK[what]
        return ""

    def impossible(self, want: Want) -> str:
        """Why a want can never be met: it asks for more than its tenant may have at all; "" if it can."""
        terms = self._terms.get(want.job)
        if terms is None:
            return ""
        if (need := units_of(want.shape, CPU)) > terms.cpu_limit > 0:
            limit = from_units(terms.cpu_limit)
            return f"it asks for {from_units(need):g} CPUs, and its job may use {limit:g} (--cpus)"
        if (need := units_of(want.shape, MEMORY)) > terms.memory_limit > 0:
            return (
                f"it asks for memory={from_units(need):,.0f}, and its job may use "
                f"{from_units(terms.memory_limit):,.0f} bytes (--memory)"
            )
        return ""

    def entitled(self, want: Want, nodes: Iterable[KnownNode], waiting: Iterable[SpecQueue]) -> bool:
        """Whether a tenant may have others asked to make room for it: it has nothing, or less than its share."""
        if not self.several():
            return True
        used, need = self.cpu[want.job], cpu_of(want.shape)
        return not used or used + need <= self._share(want.job, nodes, waiting)

    def to_ask_back(
        self, want: Want, nodes: Iterable[KnownNode], waiting: Iterable[SpecQueue]
    ) -> list[Lease]:
        """Leases of tenants with more than their share, to be asked back for a tenant with less. The oldest first.

        As many as the want lacks, and no more than its share; those on their way back count. No job is brought below
        its own share. Where shares are smaller than what is needed, this gives none: ``starvation.py`` takes turns.
        """
        nodes, waiting = list(nodes), list(waiting)
        need = cpu_of(want.shape)
        if not need or want.shape.spec.permanent:
            return []
        coming = sum(
            lease.holding.cpu
            for node in nodes
            for lease in node.leases.values()
            if lease.reclaimed_for == want.job
        )
        lacking = min(self._share(want.job, nodes, waiting) - self.cpu[want.job], need * want.unmet) - coming
        pools = {id(pool) for pool, _ in want.shape.candidates}
        left = Counter(self.cpu)
        chosen: list[Lease] = []
        for lease in self._takers(nodes, pools, want.job):
            if lacking < need:
                break
            tenant, units = lease.want.job, lease.holding.cpu
            if left[tenant] - units >= self._share(tenant, nodes, waiting):
                left[tenant] -= units
                lacking -= units
                chosen.append(lease)
        return chosen

    def _takers(self, nodes: list[KnownNode], pools: set[int], but: str) -> list[Lease]:
        found = [
            lease
            for node in nodes
            for lease in node.leases.values()
            if may_ask_back(lease) and id(lease.pool) in pools and lease.holding.cpu and not lease.cpu_lent
            if lease.want.job != but
        ]
        return sorted(found, key=lambda lease: (-self.rank(lease.want), lease.lease))

    def _share(self, tenant: str, nodes: Iterable[KnownNode], waiting: Iterable[SpecQueue]) -> float:
        """Units of CPU that a tenant is entitled to, among the tenants that have or want any."""
        total = sum(node.pool.totals.get(CPU, 0) for node in nodes)
        active = {tenant, *self.cpu, *self._kept, *(want.job for shape in waiting for want in shape)}
        return total * self._weight(tenant) / sum(self._weight(each) for each in active)

    def _weight(self, tenant: str) -> float:
        terms = self._terms.get(tenant)
        return terms.weight if terms is not None else _WEIGHT

    # ------------------------------------------------------------------ for people
    def rows(self, waiting: Iterable[SpecQueue]) -> list[TenantRow]:
        """What each tenant has and waits for."""
        unmet: Counter[str] = Counter()
        for shape in waiting:
            for want in shape:
                unmet[want.job] += want.unmet
        names = sorted({*self._terms, *self.leases, *unmet} - {""})
        return [
            TenantRow(
                name,
                self._weight(name),
                from_units(self._terms[name].cpu_limit if name in self._terms else 0),
                from_units(self.cpu[name]),
                self.leases[name],
                unmet[name],
                from_units(self._terms[name].memory_limit if name in self._terms else 0),
                from_units(self.memory[name]),
            )
            for name in names
        ]


def cpu_of(shape: SpecQueue) -> int:
    """Units of CPU that a lease of this shape holds."""
    return units_of(shape, CPU)


def units_of(shape: SpecQueue, resource: str) -> int:
    """Units of a resource that a lease of this shape holds."""
    return next((units for name, units in shape.hold if name == resource), 0)
