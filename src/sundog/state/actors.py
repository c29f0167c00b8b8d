"""The life of every actor, as the node sees it.

    register ──► DEPENDENCIES_UNREADY ──start──► PENDING_CREATION ──placed──► (constructing) ──ready──► ALIVE
                                                        ▲                          │ worker died          │
                                                        │                          ▼                      ▼
                                                     placed ◄── PlaceActor ── RESTARTING ◄── restarts left ────┤
                                                                                                          ▼
      kill(no_restart) · init_failed · exited · out_of_scope · owner_died · no restarts left ─────────► DEAD

Owns: which actors exist, their names, on which worker each lives, how often it may come back.
Refuses: leases and processes. The machine says *place this one* and *construct it there*; ``leases.py`` finds the
worker, the node program sends the messages.
Runs in the node program, on its only thread.

Events may come late, twice, or for an unknown actor: they return ``[]``. Reports that come from a
worker (``ready``, ``init_failed``, ``exited``) may name the incarnation they speak for; those of an earlier
one are ignored.

DEAD is final. An actor that was killed, or whose handles or owner are gone, gives back its name in that moment, and
so does any detached one. One that died in another way (a crash, ``exit_actor``, a constructor that raised) keeps its
name until its last handle is gone or it is killed: the holder of a handle may rely on what the name stands for.

Leases of actors must be asked for in the name of the node, not of the actor's owner: a detached actor outlives its
owner, and the death of any other is decided here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from sundog.ids import number_of, owner_of
from sundog.plain import plain
from sundog.state import backoff

DEPENDENCIES_UNREADY = "DEPENDENCIES_UNREADY"
PENDING_CREATION = "PENDING_CREATION"
ALIVE = "ALIVE"
RESTARTING = "RESTARTING"
DEAD = "DEAD"

SETTLED_S = 10.0  # an actor that has lived this long does not count as failed at its start


class ActorInstruction:
    """Base of everything that the actor machine asks the node program to do."""

    __slots__ = ()


@plain(frozen=True)
class PlaceActor(ActorInstruction):
    """Ask for one lease for this actor, after a delay; answer with ``placed``.

    Ask only if the row still has ``asked`` and this incarnation by then.
    """

    actor_id: bytes
    delay_s: float = 0.0
    incarnation: int = 0


@plain(frozen=True)
class Unplace(ActorInstruction):
    """Withdraw that ask: the lease is not needed any more."""

    actor_id: bytes


@plain(frozen=True)
class Construct(ActorInstruction):
    """Send the constructor call to ``worker``, once per incarnation; answer ``ready`` or ``init_failed``."""

    actor_id: bytes
    worker: bytes
    incarnation: int


@plain(frozen=True)
class Terminate(ActorInstruction):
    """End ``worker``: at once, or (``graceful``) after the calls that have reached it. The worker is not reused."""

    actor_id: bytes
    worker: bytes
    graceful: bool


@plain(frozen=True)
class Publish(ActorInstruction):
    """Tell every process that holds a handle. ``worker`` is where to send calls: set only when ALIVE.

    ``cause`` is what ``worker_died``, ``kill``, ``init_failed`` (the error's bytes), … were given, or a
    short word (``"out_of_scope"``, ``"owner_died"``); None while nothing went wrong.
    """

    actor_id: bytes
    state: str
    worker: bytes | None
    incarnation: int
    cause: object = None


class NameTaken(Exception):
    """The name is in use in that namespace by ``existing_id``."""

    def __init__(self, existing_id: bytes, name: str = "", namespace: str = "") -> None:
        super().__init__(existing_id, name, namespace)
        self.existing_id = existing_id
        self.name = name
        self.namespace = namespace

    def __str__(self) -> str:
        return (
            f"The actor name {self.name!r} is taken in namespace {self.namespace!r} by actor "
            f"{self.existing_id.hex()}. Pass get_if_exists=True to use that actor, or kill it first."
        )


@plain()
class ActorRow:
    """Everything known of one actor. Read it freely; only ``Actors`` writes it."""

    actor_id: bytes
    owner: bytes
    name: str
    namespace: str
    detached: bool
    max_restarts: int
    spec: object
    state: str
    changed_at: float
    incarnation: int = 0
    worker: bytes | None = None
    lease: int | None = None
    cause: object = None
    """Of the last death; kept across a restart, so that one can see why it restarted."""
    kill_cause: object = None
    asked: bool = False
    """A lease was asked for and has not been granted yet."""
    young_deaths: int = 0
    """How often in a row it died before it had lived for ``SETTLED_S``: its restarts are spaced by it."""
    leaving: bool = False
    """Out of scope: its worker was asked to finish; its end is not a failure."""

    @property
    def restarts_left(self) -> bool:
        return self.max_restarts < 0 or self.incarnation < self.max_restarts


class Actors:
    """The table of actors. Every event returns the instructions to carry out, in order."""

    def __init__(self, *, dead_max: int = 2_000) -> None:
        self._rows: dict[bytes, ActorRow] = {}
        self._names: dict[tuple[str, str], bytes] = {}
        self._by_worker: dict[bytes, bytes] = {}
        self._by_owner: dict[bytes, set[bytes]] = {}
        self._dead: OrderedDict[bytes, None] = OrderedDict()
        self._forgotten: dict[bytes, int] = {}  # creator -> the highest number among its forgotten actors
        self._dead_max = dead_max  # bounds the table: a session may create actors for weeks

    # ------------------------------------------------------------------ questions

    def lookup(self, name: str, namespace: str) -> bytes | None:
        """Return the actor that has this name now, or None."""
        return self._names.get((namespace, name))

    def get(self, actor_id: bytes) -> ActorRow | None:
        """Return the row of an actor (the last ``dead_max`` dead ones included), or None."""
        return self._rows.get(actor_id)

    def has_name(self, row: ActorRow) -> bool:
        """Whether an actor has a name, and has not given it back."""
        return bool(row.name) and self._names.get((row.namespace, row.name)) == row.actor_id

    def was_forgotten(self, actor_id: bytes) -> bool:
        """Whether an actor without a row has ended so long ago that its row went."""
        return number_of(actor_id) <= self._forgotten.get(owner_of(actor_id), 0)

    def _forget(self, actor_id: bytes) -> None:
        """Of all actors of one creator that are forgotten the highest number tells: it makes them in order."""
        self._free_name(self._rows.pop(actor_id))
        creator = owner_of(actor_id)
        highest = max(number_of(actor_id), self._forgotten.pop(creator, 0))
        self._forgotten[creator] = highest  # the last in the order
        while len(self._forgotten) > self._dead_max:
            del self._forgotten[next(iter(self._forgotten))]

    def on_worker(self, worker: bytes) -> ActorRow | None:
        """Return the actor that lives, or is being constructed, on ``worker``."""
        actor_id = self._by_worker.get(worker)
        return None if actor_id is None else self._rows[actor_id]

    def rows(self) -> Iterator[ActorRow]:
        """Iterate over all rows in order of registration."""
        return iter(self._rows.values())

    # ------------------------------------------------------------------ being born

    def register(
        self,
        actor_id: bytes,
        *,
        owner: bytes,
        name: str = "",
        namespace: str = "",
        detached: bool = False,
        max_restarts: int = 0,
        spec: object = None,
        now: float = 0.0,
    ) -> list[ActorInstruction]:
        """Make the actor known, and take its name. The actor waits for ``start``.

        Raises:
            NameTaken: another actor has the name.
        """
        if actor_id in self._rows:
            return []
        if name:
            existing = self._names.get((namespace, name))
            if existing is not None:
                raise NameTaken(existing, name, namespace)
            self._names[namespace, name] = actor_id
        self._rows[actor_id] = ActorRow(
            actor_id, owner, name, namespace, detached, max_restarts, spec, DEPENDENCIES_UNREADY, now
        )
        self._by_owner.setdefault(owner, set()).add(actor_id)
        return [Publish(actor_id, DEPENDENCIES_UNREADY, None, 0)]

    def start(self, actor_id: bytes, now: float) -> list[ActorInstruction]:
        """The constructor's arguments are ready: the actor may be placed."""
        row = self._rows.get(actor_id)
        if row is None or row.state != DEPENDENCIES_UNREADY:
            return []
        row.state, row.changed_at, row.asked = PENDING_CREATION, now, True
        return [Publish(actor_id, PENDING_CREATION, None, row.incarnation), PlaceActor(actor_id)]

    def placed(self, actor_id: bytes, worker: bytes, lease: int, now: float) -> list[ActorInstruction]:
        """A lease was granted: construct it there.

        If no actor waits for that lease any more (the actor died meanwhile, or already has a worker), the
        worker is terminated, so that no lease is lost.
        """
        row = self._rows.get(actor_id)
        if row is not None and row.worker == worker:
            return []
        if row is None or not row.asked:
            return [Terminate(actor_id, worker, graceful=False)]
        row.worker, row.lease, row.changed_at, row.asked = worker, lease, now, False
        self._by_worker[worker] = actor_id
        return [Construct(actor_id, worker, row.incarnation)]

    def ready(
        self, actor_id: bytes, incarnation: int | None = None, now: float = 0.0
    ) -> list[ActorInstruction]:
        """Its constructor returned: calls may be sent."""
        row = self._constructed(actor_id, incarnation)
        if row is None:
            return []
        row.state, row.changed_at = ALIVE, now
        return [Publish(actor_id, ALIVE, row.worker, row.incarnation)]

    def init_failed(
        self, actor_id: bytes, error: bytes, incarnation: int | None = None, now: float = 0.0
    ) -> list[ActorInstruction]:
        """Its constructor raised: the actor is dead, and is not tried again (it would raise again)."""
        row = self._constructed(actor_id, incarnation)
        if row is None:
            return []
        return self._bury(row, error, now, graceful=True, keeps_name=True)

    # ------------------------------------------------------------------ ending

    def worker_died(self, worker: bytes, cause: object, now: float) -> list[ActorInstruction]:
        """A worker process ended. Its actor, if any, restarts while it has restarts left."""
        actor_id = self._by_worker.pop(worker, None)
        if actor_id is None:
            return []
        row = self._rows[actor_id]
        row.worker = row.lease = None
        if row.leaving:
            return self._bury(row, row.cause, now)
        if row.kill_cause is not None or (row.state == ALIVE and now - row.changed_at >= SETTLED_S):
            row.young_deaths = 0
        row.young_deaths += 1
        cause = row.kill_cause if row.kill_cause is not None else cause
        row.kill_cause = None
        if not row.restarts_left:
            return self._bury(row, cause, now, keeps_name=True)
        row.incarnation += 1
        row.state, row.cause, row.changed_at, row.asked = RESTARTING, cause, now, True
        delay_s = backoff.delay_s(row.young_deaths, backoff.RESTART, actor_id)
        return [
            Publish(actor_id, RESTARTING, None, row.incarnation, cause),
            PlaceActor(actor_id, delay_s, row.incarnation),
        ]

    def kill(self, actor_id: bytes, no_restart: bool, cause: object, now: float) -> list[ActorInstruction]:
        """End it at once. Unless ``no_restart``, it comes back while it has restarts left."""
        row = self._rows.get(actor_id)
        if row is None:
            return []
        if row.state == DEAD:
            if no_restart:
                self._free_name(row)
            return []
        if no_restart:
            return self._bury(row, cause, now)
        if row.worker is None:
            # No process runs that could be killed; only an actor without restarts left dies of this.
            return [] if row.restarts_left else self._bury(row, cause, now)
        if row.kill_cause is None and not row.leaving:
            row.kill_cause = cause if cause is not None else "killed"
        return [Terminate(actor_id, row.worker, graceful=False)]

    def out_of_scope(self, actor_id: bytes, now: float) -> list[ActorInstruction]:
        """No handle is left, and no call waits at any caller. Calls that have reached the worker finish
        first.

        The actor stays as it is until its worker has ended (``exited`` or ``worker_died``), so that the
        replies of those calls are still delivered. Detached actors do not go out of scope.
        """
        row = self._rows.get(actor_id)
        if row is None or row.detached or row.leaving:
            return []
        if row.state == DEAD:
            self._free_name(row)
            return []
        if row.worker is None:
            return self._bury(row, "out_of_scope", now)
        row.leaving, row.cause = True, "out_of_scope"
        return [Terminate(actor_id, row.worker, graceful=True)]

    def exited(
        self, actor_id: bytes, cause: object, incarnation: int | None = None, now: float = 0.0
    ) -> list[ActorInstruction]:
        """Its worker ends on purpose (exit_actor): no restart, and no worker needs to be stopped."""
        row = self._rows.get(actor_id)
        if row is None or row.state == DEAD or not self._current(row, incarnation):
            return []
        self._leave_worker(row)
        return self._bury(row, row.cause if row.leaving else cause, now, keeps_name=True)

    def owner_died(self, owner: bytes, now: float) -> list[ActorInstruction]:
        """A process ended: its actors end with it, but for detached ones whose arguments were ready."""
        out: list[ActorInstruction] = []
        for actor_id in sorted(self._by_owner.get(owner, ())):
            row = self._rows[actor_id]
            if row.state == DEAD:
                self._free_name(row)
            elif not row.detached or row.state == DEPENDENCIES_UNREADY:
                out += self._bury(row, "owner_died", now)
        return out

    # ------------------------------------------------------------------ inside

    def _constructed(self, actor_id: bytes, incarnation: int | None) -> ActorRow | None:
        """The row of an actor whose constructor runs in this life; None if a message about it comes too late."""
        row = self._rows.get(actor_id)
        if row is None or row.state not in (PENDING_CREATION, RESTARTING):
            return None
        return row if self._current(row, incarnation) else None

    @staticmethod
    def _current(row: ActorRow, incarnation: int | None) -> bool:
        return row.worker is not None and (incarnation is None or incarnation == row.incarnation)

    def _leave_worker(self, row: ActorRow) -> bytes | None:
        worker = row.worker
        if worker is not None:
            del self._by_worker[worker]
        row.worker = row.lease = None
        return worker

    def _free_name(self, row: ActorRow) -> None:
        """No caller relies any more on the name of a dead actor."""
        if self.has_name(row):
            del self._names[row.namespace, row.name]
            self._leave_owner(row)

    def _leave_owner(self, row: ActorRow) -> None:
        owned = self._by_owner[row.owner]
        owned.discard(row.actor_id)
        if not owned:
            del self._by_owner[row.owner]

    def _bury(
        self, row: ActorRow, cause: object, now: float, graceful: bool = False, keeps_name: bool = False
    ) -> list[ActorInstruction]:
        out: list[ActorInstruction] = []
        worker = self._leave_worker(row)
        if worker is not None:
            out.append(Terminate(row.actor_id, worker, graceful))
        if row.asked:
            row.asked = False
            out.append(Unplace(row.actor_id))
        row.state, row.cause, row.changed_at = DEAD, cause, now
        if not row.name:
            self._leave_owner(row)
        elif row.detached or row.leaving or not keeps_name:
            self._free_name(row)
        self._dead[row.actor_id] = None
        while len(self._dead) > self._dead_max:
            self._forget(self._dead.popitem(last=False)[0])
        out.append(Publish(row.actor_id, DEAD, None, row.incarnation, cause))
        return out
