"""What the store's machine (`sundog.state.store`) tells the node to do, and what its events are made of."""

from __future__ import annotations

from sundog.plain import NamedTuple


class SpillPlace(NamedTuple):
    """Where the bytes of a spilled object are."""

    url: str
    offset: int
    length: int


class Seen(NamedTuple):
    """A file found by a scan: its bytes, and when it was made, on the monotonic clock, as far as file times tell."""

    size: int
    made_at: float


class Granted(NamedTuple):
    """Tell a process that it may fill this many bytes more."""

    process: bytes
    number: int
    amount: int


class RoomRefused(NamedTuple):
    """Tell a process that there is no room: write to disk, or (`full`) fail."""

    process: bytes
    number: int
    full: bool
    tenant: str = ""  # the job whose own limit is the reason


class Trim(NamedTuple):
    """Ask a process to return what it does not need."""

    process: bytes
    round: int


class Collect(NamedTuple):
    """Ask every process to collect its garbage: refs in cycles keep objects until then."""


class Scan(NamedTuple):
    """Remove these files of free lists, then measure all others."""

    round: int
    remove: list[str]


class Spill(NamedTuple):
    """Copy these segments to one file; say `spilled` when they left, and `released` when their pages are free."""

    job: int
    names: list[str]


class Evict(NamedTuple):
    """Remove restored copies, then say `released`; the copy on disk stays."""

    job: int
    names: list[str]


class Restore(NamedTuple):
    """Copy an object back into shared memory."""

    name: str
    place: SpillPlace


class Here(NamedTuple):
    """Tell a process where an object is: restored (place is None), at a place on disk, or lost."""

    process: bytes
    number: int
    place: SpillPlace | None
    lost: bool


class Delete(NamedTuple):
    """A file of spilled objects is not needed any more."""

    url: str


Step = Granted | RoomRefused | Trim | Collect | Scan | Spill | Evict | Restore | Here | Delete
