"""Messages between the node and the zygote.

::

    node ──ToZygote──► zygote
    node ◄─FromZygote─ zygote

Owns the rows. The tables are in `worker/zygote.py` and `node/workers.py`. Pure.
"""

from __future__ import annotations

from sundog.wire.row import Row


class ToZygote(Row):
    """From the node to the zygote."""


class FromZygote(Row):
    """From the zygote to the node."""


class Fork(ToZygote, fds=1):
    """Make a worker; the descriptor is its control socket.

    Two dicts (`wire/dicts.py`), pickled: what it has in common with all workers of its job, the same bytes for each of
    them, and what is its own.
    """

    worker: bytes
    common: bytes
    spec: bytes


class Import(ToZygote):
    """Load these now: packages of the driver, such as numpy, each with the folder that it is installed in; modules of
    ours and of the standard library, each with "".
    """

    packages: list[tuple[str, str]]


class Learn(ToZygote):
    """Load these modules when no request for a fork waits, if that is safe; where their packages are. `now`: before the
    next fork, and without a trial.
    """

    folders: list[str]
    modules: list[str]
    # all packages that workers (`now`: the driver) have loaded: an import that loads others gives another result
    packages: list[str]
    now: bool = False


class Learned(FromZygote):
    """Packages were loaded, in how many seconds and KiB; or why they were not."""

    packages: list[str]
    seconds: float
    kib: int
    reason: str


class Forked(FromZygote):
    """A worker was forked: its pid."""

    worker: bytes
    pid: int


class ForkFailed(FromZygote):
    """A worker could not be forked, and why."""

    worker: bytes
    reason: str


class Exited(FromZygote):
    """A worker is gone: pid, wait status, peak memory."""

    pid: int
    status: int
    peak_kib: int
