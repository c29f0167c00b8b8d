"""Logical resources: whole-number arithmetic, pools that are drawn from, and ids of what comes in pieces.

Owns: the conversion between the user's floats and the integers used inside (one unit is 1e-4, so sums never
drift), and ``ResourcePool``: what a node, or one bundle of a placement group, has, and what of it is free right now.
Refuses: any policy. Which request may draw, and from which pool, is decided in ``leases.py``.
Runs in the node program, on its only thread; the simulator runs it in tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sundog.accelerator_kinds import KINDS
from sundog.plain import plain
from sundog.printable import printable

UNIT = 10_000
CPU = "CPU"

Demand = tuple[tuple[str, int], ...]
"""Sorted (name, units) pairs without zeros."""

Slots = dict[str, dict[int, int]]
"""Kind of accelerator → id of a piece → units of it."""

Piece = tuple[str, int, int]
"""(Kind of accelerator, id of the piece, units of it)."""

Ids = tuple[tuple[str, tuple[int, ...]], ...]
"""(Kind of accelerator, ids of its pieces)."""


def to_units(amount: float) -> int:
    """Return ``amount`` in units of 1e-4; what is positive never vanishes by rounding.

    >>> to_units(0.1) + to_units(0.2) == to_units(0.3)
    True
    """
    units = round(amount * UNIT)
    return 1 if units == 0 and amount > 0 else units


def from_units(units: int) -> float:
    """Return the user's number for ``units``.

    >>> from_units(5000)
    0.5
    """
    return units / UNIT


def demand_of(amounts: Mapping[str, float] | Iterable[tuple[str, float]]) -> Demand:
    """Return the sorted integer demand of ``amounts``, without its zeros.

    Raises:
        ValueError: an amount is negative or not a finite number.
    """
    pairs = amounts.items() if isinstance(amounts, Mapping) else amounts
    found: dict[str, int] = {}
    for name, amount in pairs:
        if not 0 <= amount < float("inf"):
            raise ValueError(f"resource {name!r} must be a finite number of zero or more, not {amount!r}")
        units = to_units(amount)
        if units:
            found[name] = found.get(name, 0) + units
    return tuple(sorted(found.items()))


def at_least_both(one: Demand, other: Demand) -> Demand:
    """Return the larger of two demands, resource by resource."""
    if not other:
        return one
    larger = dict(one)
    for name, units in other:
        if units > larger.get(name, 0):
            larger[name] = units
    return tuple(sorted(larger.items()))


def describe(demand: Demand) -> str:
    """Return ``demand`` for a person to read, such as ``{CPU: 2, GPU: 0.5}``."""
    return "{" + ", ".join(f"{printable(name)}: {from_units(units):g}" for name, units in demand) + "}"


@plain()
class Holding:
    """What one lease or bundle has drawn from a pool, to be given back as it is."""

    units: Demand
    pieces: tuple[Piece, ...] = ()

    @property
    def ids(self) -> Ids:
        """The pieces that it has, by kind."""
        found: dict[str, list[int]] = {}
        for name, piece, _ in self.pieces:
            found.setdefault(name, []).append(piece)
        return tuple((name, tuple(pieces)) for name, pieces in found.items())

    @property
    def cpu(self) -> int:
        for name, units in self.units:
            if name == CPU:
                return units
        return 0


def slots_of(pieces: Iterable[Piece]) -> Slots:
    """Return the slots of a bundle that has these pieces."""
    slots: Slots = {}
    for name, piece, units in pieces:
        slots.setdefault(name, {})[piece] = units
    return slots


def _numbered(units: int) -> dict[int, int]:
    """Return id → units for a machine with ``units`` of a kind (the last piece may be a fraction)."""
    whole, rest = divmod(units, UNIT)
    slots = dict.fromkeys(range(whole), UNIT)
    if rest:
        slots[whole] = rest
    return slots


class ResourcePool:
    """Resources that leases draw from: those of a node, or those set aside for one bundle.

    ``free`` may be negative for CPU alone, after ``force_cpu`` (a worker that wakes from a blocking get
    takes its CPU back at once, because waiting for it could deadlock); a demand for a resource that is
    negative never fits.

    A reservation names one holder for whom what is free, and becomes free, is kept: every other request fits only
    beside it.
    """

    __slots__ = ("free", "reserved", "reserved_for", "slots", "slots_free", "totals")

    def __init__(self, totals: Demand, slots: Slots | None = None) -> None:
        self.totals: dict[str, int] = dict(totals)
        self.free: dict[str, int] = dict(totals)
        if slots is None:
            slots = {name: _numbered(units) for name, units in totals if name in KINDS}
        self.slots = slots
        self.slots_free: Slots = {name: dict(pieces) for name, pieces in slots.items()}
        self.reserved_for: object | None = None
        self.reserved: dict[str, int] = {}

    def copy(self, *, empty: bool = False) -> ResourcePool:
        """Return a pool to plan on: as it is now, or (``empty``) as if nothing had been drawn."""
        twin = ResourcePool(tuple(self.totals.items()), self.slots)
        if not empty:
            twin.free = dict(self.free)
            twin.slots_free = {name: dict(pieces) for name, pieces in self.slots_free.items()}
            twin.reserved_for, twin.reserved = self.reserved_for, self.reserved
        return twin

    def could_fit(self, need: Demand) -> bool:
        """Whether ``need`` would fit if nothing else were drawn."""
        totals = self.totals
        for name, units in need:
            if units > totals.get(name, 0) or (name in KINDS and _pick(self.slots[name], units) is None):
                return False
        return True

    def fits(self, need: Demand, holder: object | None = None) -> bool:
        """Whether ``need`` fits now, leaving alone what is reserved for anyone but ``holder``."""
        free = self.free
        reserved = (
            self.reserved if self.reserved_for is not None and self.reserved_for is not holder else None
        )
        for name, units in need:
            have = free.get(name, 0)
            if units > have:
                return False
            if reserved and name in reserved and (name in KINDS or have - units < reserved[name]):
                # With GPUs, a fraction might break up a whole GPU that is being collected.
                return False
            if name in KINDS and _pick(self.slots_free[name], units) is None:
                return False
        return True

    def missing(self, need: Demand) -> dict[str, int]:
        """Return what of ``need`` is not free now; empty means that it fits."""
        short: dict[str, int] = {}
        for name, units in need:
            have = self.free.get(name, 0)
            if units > have:
                short[name] = units - have
            elif name in KINDS and _pick(self.slots_free[name], units) is None:
                short[name] = units  # enough in total, but divided over several devices
        return short

    def take(self, demand: Demand) -> Holding:
        """Draw ``demand``, which must fit.

        Raises:
            ValueError: it does not fit; nothing was drawn.
        """
        free = self.free
        pieces: list[Piece] = []
        for name, units in demand:
            picked: tuple[tuple[int, int], ...] | None = ()
            if name in KINDS:
                picked = _pick(self.slots_free.get(name, {}), units)
            if units > free.get(name, 0) or picked is None:
                raise ValueError(
                    f"{describe(demand)} does not fit what is free: {describe(tuple(free.items()))}"
                )
            pieces.extend((name, piece, part) for piece, part in picked)
        for name, units in demand:
            free[name] -= units
        for name, piece, units in pieces:
            self.slots_free[name][piece] -= units
        return Holding(demand, tuple(pieces))

    def give(self, holding: Holding, *, without_cpu: bool = False) -> None:
        """Take ``holding`` back (``without_cpu``: its CPU is lent, and back already)."""
        free = self.free
        for name, units in holding.units:
            if not (without_cpu and name == CPU):
                free[name] += units
        for name, piece, units in holding.pieces:
            self.slots_free[name][piece] += units

    def lend_cpu(self, units: int) -> None:
        """Make the CPU of a blocked worker available to others."""
        if units:
            self.free[CPU] += units

    def force_cpu(self, units: int) -> None:
        """Take CPU for a worker that woke up, whether or not it is free."""
        if units:
            self.free[CPU] -= units

    def absorb(self, other: ResourcePool) -> None:
        """Take back what is free in ``other``, a bundle cut from this pool that is being dissolved."""
        for name, units in other.free.items():
            self.free[name] += units
        for name, pieces in other.slots_free.items():
            for piece, units in pieces.items():
                self.slots_free[name][piece] += units

    def reserve(self, holder: object, need: Demand) -> None:
        self.reserved_for = holder
        self.reserved = dict(need)

    def unreserve(self) -> None:
        self.reserved_for = None
        self.reserved = {}

    def used_share(self) -> float:
        """Return how full the fullest resource is: 0.0 untouched, 1.0 used up (more after ``force_cpu``)."""
        share = 0.0
        for name, total in self.totals.items():
            if total:
                share = max(share, 1.0 - self.free[name] / total)
        return share


def _pick(slots: Mapping[int, int], units: int) -> tuple[tuple[int, int], ...] | None:
    """Return the (id, units) to draw for ``units`` of a kind, or None when the pieces left do not allow it.

    Whole pieces get ids of their own; a fraction goes to the piece with the least left that still has room, so
    that whole ones stay whole for as long as possible.
    """
    whole, fraction = divmod(units, UNIT)
    full = [piece for piece, left in slots.items() if left == UNIT]
    if len(full) < whole:
        return None
    picked = [(piece, UNIT) for piece in full[:whole]]
    if fraction:
        spare = [
            (left, piece) for piece, left in slots.items() if left >= fraction and piece not in full[:whole]
        ]
        if not spare:
            return None
        picked.append((min(spare)[1], fraction))
    return tuple(picked)
