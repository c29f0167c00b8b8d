"""What processes tell the node about their waits: the words of the search for deadlocks.

Owns: values only. ``Report`` is one process' answer: its gets and waits that have lasted, the places where it
runs calls, and where those of its own tasks are that a process waits for. ``Shortage`` is the lease machine's:
what a request lacks, and which leases have it. Refuses: judging; ``wait_graph.py`` does.
Made by owners (``owner/long_waits.py``), by workers (their slots) and by the lease machine; read in the node.
"""

from __future__ import annotations

from collections.abc import Hashable

from sundog.plain import NamedTuple

MAIN = "main"
"""The slot of a process that runs one thing at a time."""

# Where a task is, as its owner knows it.
ARGUMENTS = "arguments"  # the task waits for the values of its arguments
LEASE = "lease"  # the task waits for a worker
SENT = "sent"  # a worker has it
CALL = "call"  # an actor has it, or will when there is one
BEHIND = "behind"  # a call behind another of the same caller, which comes first


class Frame(NamedTuple):
    """One line of a stack."""

    file: str
    line: int
    function: str


class Wait(NamedTuple):
    """A get or wait, without a timeout, that has been blocked for long."""

    serial: int  # of its process: one blocked call keeps its number
    verb: str
    runs: bytes  # the task or call whose code it is; empty in a driver
    name: str  # of that task or call
    holds_slot: bool  # whether that task's own thread is the one that waits
    need: int  # how many of the targets must come
    targets: tuple[bytes, ...]  # objects (or generators' tasks) that are not there
    since_s: float
    stack: tuple[Frame, ...] = ()


class RunSlot(NamedTuple):
    """A place where calls run: this many at a time."""

    name: str
    limit: int
    running: tuple[bytes, ...]


class TaskFact(NamedTuple):
    """Where an unfinished task is."""

    where: str
    name: str
    needs: tuple[bytes, ...] = ()  # ARGUMENTS: objects that are missing
    key: Hashable = None  # LEASE, SENT: of the request for a worker
    worker: bytes = b""  # SENT
    actor: bytes = b""  # CALL
    ahead: bytes = b""  # BEHIND: the call that comes first


class Report(NamedTuple):
    """One process' answer."""

    waits: tuple[Wait, ...] = ()
    slots: tuple[RunSlot, ...] = ()
    queued: tuple[tuple[bytes, str], ...] = ()  # calls that are here and have not begun: (task, slot)
    exclusive: bool = True  # whatever else was sent here waits for the main slot
    tasks: tuple[tuple[bytes, TaskFact], ...] = ()
    others: int = 0  # threads that are neither ours nor in `waits`, and may do anything


class Holder(NamedTuple):
    """A process, lease or group that has some of a resource."""

    kind: str  # "task", "actor" or "group"
    key: bytes  # the worker's process id, or the placement group's id
    units: int


class Lack(NamedTuple):
    """One resource that a request is short of in one place, and the holders of it there."""

    resource: str
    asked: float
    short: int
    holders: tuple[Holder, ...]


class Shortage(NamedTuple):
    """Why a request waits: for each place where it could run, what is missing there."""

    places: tuple[tuple[Lack, ...], ...]
