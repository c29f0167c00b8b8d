"""Actors on the node's side: places for them, lanes of their callers, what is told to whom.

Carries events into `state.actors.Actors` and its instructions out. A caller opens its lane before the
actor has a worker; the descriptor waits here until there is one.
"""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING, Protocol

from sundog.exceptions import ActorAlreadyExistsError, RuntimeEnvSetupError
from sundog.ids import PROCESS_BYTES
from sundog.node.rows import Environment, Process, registration_of
from sundog.state.actors import (
    DEAD,
    ActorInstruction,
    ActorRow,
    Actors,
    Construct,
    NameTaken,
    PlaceActor,
    Publish,
    Terminate,
    Unplace,
)
from sundog.state.instructions import Grant, Instruction
from sundog.state.lease_spec import LeaseSpec
from sundog.wire.cause import Cause
from sundog.wire.control import (
    ActOk,
    ActorChanged,
    ActorCreated,
    ActorDead,
    ActorExit,
    ActorFail,
    ActorFailed,
    ActorKill,
    ActorReady,
    ActorRegister,
    ActorScope,
    ActorStart,
    ConstructActor,
    LaneOpened,
    MayAct,
    OpenActorLane,
    TerminateActor,
)

if TYPE_CHECKING:
    from sundog.node.interfaces import Acting, WithFacts, WithTenants, WithWorkers
    from sundog.node.learning import Learning
    from sundog.wire.dicts import Registration

    class ActorsNode(Acting, WithFacts, WithTenants, WithWorkers, Protocol):
        """What the keeper of actors asks of the node."""

        @property
        def learning(self) -> Learning:
            """What the zygote has learned."""


_UNKNOWN_S = 10.0
_NEVER_KNOWN = "the process that created it ended, or its session ended, before this process knew of it"
_FORGOTTEN = (
    "it ended so long ago that the node has forgotten why: it remembers the newest 2,000 of those that ended"
)
# Facts that are kept about an ended actor. Its code and arguments are needed only to start it.
_EPITAPH = (
    "call_site",
    "class_name",
    "class_path",
    "created",
    "error_text",
    "hidden",
    "job_id",
    "lease",
    "node_id",
    "pid",
    "repr_name",
    "submit_s",
)
_LEASES_MAX = 256
_WORDS = {
    "out_of_scope": Cause(reason="all handles to it went out of scope", intended=True),
    "owner_died": Cause(reason="the process that created it is gone", intended=True),
}


class ActorKeeper:
    """All actors of this node."""

    def __init__(self, node: ActorsNode) -> None:
        self.node = node
        self.actors = Actors(dead_max=node.config.maximum_gcs_destroyed_actor_cached_count)
        # actor -> (caller, descriptor) of lanes that wait for its process
        self._lanes: dict[bytes, list[tuple[bytes, int]]] = {}
        self._callers: dict[bytes, set[bytes]] = {}
        self._unknown: dict[bytes, float] = {}
        # one spec shared by all dead actors with equal specs
        self._known_leases: dict[LeaseSpec, LeaseSpec] = {}
        self._leases: dict[bytes, Grant] = {}
        self._asked: dict[bytes, Grant] = {}  # workers that were asked whether they can become an actor

    # ------------------------------------------------------------------ questions
    def uses(self, env_key: str) -> bool:
        """Whether a detached actor may need this environment again."""
        return any(
            row.detached and row.state != DEAD and registration_of(row)["lease"].env_key == env_key
            for row in self.actors.rows()
        )

    @staticmethod
    def in_words(cause: object) -> object:
        """A cause that is a word of the actor machine's, as a `Cause`; any other as it is."""
        return _WORDS.get(cause, Cause(reason=cause)) if isinstance(cause, str) else cause

    def parked(self) -> int:
        """How many descriptors wait here for an actor to have a worker."""
        return sum(len(lanes) for lanes in self._lanes.values())

    # ------------------------------------------------------------------ messages of processes
    def register(
        self, process: Process, actor_id: bytes, name: str, namespace: str, options: Registration
    ) -> bytes:
        """Create the row of an actor; its id, or with get_if_exists that of the one that has the name.

        Raises:
            ActorAlreadyExistsError: the name is taken.
        """
        try:
            self.do(
                self.actors.register(
                    actor_id,
                    owner=process.process_id,
                    name=name,
                    namespace=namespace,
                    detached=options["detached"],
                    max_restarts=options["max_restarts"],
                    spec=options,
                    now=self.node.now(),
                )
            )
        except NameTaken as taken:
            if options.get("get_if_exists"):
                return taken.existing_id
            row = self.actors.get(taken.existing_id)
            advice = (
                "That actor is dead, but a program still has handles to it: drop the handles, or kill() the actor, "
                "to free the name."
                if row is not None and row.state == DEAD
                else "Please use a different name, get that actor with get_actor() or get_if_exists=True, or kill() it "
                "first."
            )
            raise ActorAlreadyExistsError(
                f"The name {name!r} is taken in namespace {namespace!r} by actor {taken.existing_id.hex()}. {advice}",
                actor_id=taken.existing_id.hex(),
            ) from None
        if self._unknown.pop(actor_id, None) is not None:
            self.node.log(f"actor {actor_id.hex()} became known after its first call")
        return actor_id

    def register_unnamed(self, process: Process, message: ActorRegister) -> None:
        """An actor without a name: nothing can go wrong, and no process waits for an answer."""
        options = message.options
        self.register(process, message.actor_id, "", options["namespace"], options)

    def start(self, _process: Process, message: ActorStart) -> None:
        """The constructor's arguments are ready."""
        row = self.actors.get(message.actor_id)
        if row is not None:
            spec = registration_of(row)
            spec["args"], spec["extra"] = message.args, message.extra
            self.do(self.actors.start(message.actor_id, self.node.now()))

    def fail(self, _process: Process, message: ActorFail) -> None:
        """The constructor's arguments failed: the actor will never be."""
        self.do(self.actors.kill(message.actor_id, True, message.error, self.node.now()))

    def open_lane(self, process: Process, message: OpenActorLane, fd: int) -> None:
        """A caller opens a lane."""
        actor_id = message.actor_id
        self._callers.setdefault(actor_id, set()).add(process.process_id)
        row = self.actors.get(actor_id)
        if row is None:
            forgotten = self.actors.was_forgotten(actor_id)
            if forgotten or actor_id[:PROCESS_BYTES] not in self.node.processes:
                # The actor ended long ago; or its creator is gone or belongs to another session: no message will
                # register it.
                os.close(fd)
                reason = _FORGOTTEN if forgotten else _NEVER_KNOWN
                self._publish(actor_id, DEAD, None, 0, Cause(reason=reason, intended=True))
                return
            self._unknown.setdefault(actor_id, self.node.now())
        elif row.state == DEAD:
            os.close(fd)
            self._tell(process, row)
            return
        elif row.worker is not None and row.worker in self.node.processes:
            self.node.forward(process, row.worker, LaneOpened(process.process_id), fd)
            if row.state == "ALIVE":
                self._tell(process, row)
            return
        self._lanes.setdefault(actor_id, []).append((process.process_id, fd))

    def ready(self, process: Process, message: ActorReady) -> None:
        """A worker has constructed its actor, which calls itself `shown`, if its class says so."""
        actor_id = message.actor_id
        row = self.actors.get(actor_id)
        if row is not None:
            registration_of(row).update({"repr_name": message.shown, "created": True})
            owner = self.node.processes.get(row.owner)
            if owner is not None:
                # The creator counts the refs that the constructor keeps, even if it never calls the actor.
                owner.peers.add(process.process_id)
                process.peers.add(owner.process_id)
                owner.line.send(ActorCreated(actor_id, process.process_id, message.held))
        self.do(self.actors.ready(actor_id, message.incarnation, self.node.now()))

    def failed(self, process: Process, message: ActorFailed) -> None:
        """A constructor raised: its error, which is not read here, and what it says."""
        actor_id = message.actor_id
        row = self.actors.get(actor_id)
        if row is not None:
            registration_of(row)["error_text"] = message.text
        process.exit_type = "USER_ERROR"
        process.kill_reason, process.intended = f"its constructor raised:\n{message.text}", True
        self.do(self.actors.init_failed(actor_id, message.error, message.incarnation, self.node.now()))

    def scope_ended(self, _process: Process, message: ActorScope) -> None:
        """The last handle is gone."""
        row = self.actors.get(message.actor_id)
        if row is not None and not row.detached:
            self.do(self.actors.out_of_scope(message.actor_id, self.node.now()))

    def kill(self, _process: Process, message: ActorKill) -> None:
        """`kill(actor)`."""
        cause = Cause(reason="sundog.kill() was called on it", intended=True)
        self.do(self.actors.kill(message.actor_id, message.no_restart, cause, self.node.now()))

    def exited(self, process: Process, message: ActorExit) -> None:
        """`exit_actor()`: an intended end."""
        reason = message.reason
        process.kill_reason, process.intended, process.exit_type = reason, True, "INTENDED_USER_EXIT"
        self.do(self.actors.exited(message.actor_id, Cause(reason=reason, intended=True)))

    # ------------------------------------------------------------------ events of the node
    def granted(self, grant: Grant) -> None:
        """An actor has a worker."""
        actor_id = grant.key
        assert isinstance(actor_id, bytes)
        self._leases[actor_id] = grant
        row = self.actors.get(actor_id)
        if row is None or row.state == DEAD:
            self.node.do(self.node.leases.release(grant.lease, self.node.now(), True))
            return
        worker = self.node.processes.get(grant.worker)
        if worker is not None and worker.served and grant.worker not in self._asked:
            # The worker would end with its actor, and other processes may hold objects that its earlier tasks
            # made.
            self._asked[grant.worker] = grant
            worker.line.send(MayAct())
            return
        self.do(self.actors.placed(actor_id, grant.worker, grant.lease, self.node.now()))

    def act_answer(self, process: Process, message: ActOk) -> None:
        """A worker that has run tasks answers whether it may become an actor; if not, another one does."""
        grant = self._asked.get(process.process_id)
        if grant is None:
            return
        if message.free:
            self.granted(grant)
            self._asked.pop(process.process_id, None)
            return
        del self._asked[process.process_id]
        # the worker stays while other processes rely on it
        self.node.do(self.node.leases.retire_worker(process.process_id))
        self.node.do(self.node.leases.release(grant.lease, self.node.now()))
        self._ask_again(grant)

    def _ask_again(self, grant: Grant) -> None:
        actor_id = grant.key
        assert isinstance(actor_id, bytes)
        row = self.actors.get(actor_id)
        if row is not None and row.asked:
            spec = registration_of(row)["lease"]
            self.node.do(self._want(row, spec, 1))
            self.node.wake_ticks()

    def worker_died(self, worker: bytes, cause: Cause, now: float) -> None:
        """A worker is gone, perhaps with an actor."""
        self.do(self.actors.worker_died(worker, cause, now))
        grant = self._asked.pop(worker, None)
        if grant is not None:
            self._ask_again(grant)

    def owner_died(self, owner: bytes, now: float) -> None:
        """The creator of some actors is gone."""
        self.do(self.actors.owner_died(owner, now))
        for callers in self._callers.values():
            callers.discard(owner)

    def infeasible(self, actor_id: bytes) -> ActorRow | None:
        """The row of an actor that fits nowhere."""
        return self.actors.get(actor_id)

    def environment_failed(self, environment: Environment) -> None:
        """No worker of this environment will ever come up: actors that wait for one are refused."""
        for row in list(self.actors.rows()):
            if (
                row.state not in (DEAD, "ALIVE")
                and registration_of(row)["lease"].env_key == environment.env_key
            ):
                self.refuse(row, _environment_error(row, environment))

    def refuse(self, row: ActorRow, error: Exception) -> None:
        """An actor can never be: its calls raise `error`."""
        self.do(self.actors.kill(row.actor_id, True, pickle.dumps(error, 5), self.node.now()))

    def tick(self, now: float) -> None:
        """Lanes to actors that never became known are answered."""
        for actor_id, since in list(self._unknown.items()):
            if now - since > _UNKNOWN_S:
                del self._unknown[actor_id]
                self._publish(actor_id, DEAD, None, 0, Cause(reason=_NEVER_KNOWN, intended=True))

    # ------------------------------------------------------------------ instructions
    def do(self, instructions: list[ActorInstruction]) -> None:
        """Carry out what the actor machine says."""
        for step in instructions:
            if isinstance(step, PlaceActor):
                if step.delay_s:
                    self.node.loop.after(step.delay_s, lambda step=step: self._place(step))  # type: ignore[misc]
                else:
                    self._place(step)
            elif isinstance(step, Unplace):
                row = self.actors.get(step.actor_id)
                if row is not None:
                    spec = registration_of(row)["lease"]
                    self.node.do(self._want(row, spec, 0))
            elif isinstance(step, Construct):
                self._construct(step)
            elif isinstance(step, Terminate):
                self._terminate(step)
            elif isinstance(step, Publish):
                self._publish(step.actor_id, step.state, step.worker, step.incarnation, step.cause)

    def _want(self, row: ActorRow, spec: LeaseSpec, count: int) -> list[Instruction]:
        tenant = self.node.tenancy.of(registration_of(row)["job_id"])
        return self.node.leases.want(row.actor_id, row.actor_id, spec, count, self.node.now(), tenant)

    def _place(self, step: PlaceActor) -> None:
        row = self.actors.get(step.actor_id)
        if row is None or not row.asked or row.incarnation != step.incarnation:
            return  # the actor ended while it waited for its restart
        spec = registration_of(row)["lease"]
        environment = self.node.workers.environments.get(spec.env_key)
        if environment is not None and environment.error:
            self.refuse(row, _environment_error(row, environment))
            return
        with self.node.learning.actor_comes(registration_of(row).get("imports", [])):
            self.node.do(self._want(row, spec, 1))
        self.node.wake_ticks()

    def _construct(self, step: Construct) -> None:
        row = self.actors.get(step.actor_id)
        worker = self.node.processes.get(step.worker)
        if row is None or worker is None:
            return
        spec = registration_of(row).copy()
        grant = self._leases[step.actor_id]
        spec.pop("lease")
        spec["setup"] = {**spec["setup"], "accelerators": grant.accelerators}
        spec["owner"] = row.owner
        worker.line.send(ConstructActor(step.actor_id, step.incarnation, spec))
        registration_of(row)["node_id"] = worker.node_id.hex()
        # the pid of its last process, for questions after that process is gone
        registration_of(row)["pid"] = worker.pid
        for caller, fd in self._lanes.pop(step.actor_id, []):
            process = self.node.processes.get(caller)
            if process is None:
                os.close(fd)
            else:
                self.node.forward(process, step.worker, LaneOpened(caller), fd)

    def _terminate(self, step: Terminate) -> None:
        worker = self.node.processes.get(step.worker)
        if worker is None:
            return
        row = self.actors.get(step.actor_id)
        cause = self.in_words(row.cause) if row is not None else None
        reason = cause.reason if isinstance(cause, Cause) else ""
        reason = reason or worker.kill_reason or "its actor ended"
        if step.graceful:
            worker.kill_reason, worker.intended = reason, True
            worker.state = "stopping"
            worker.line.send(TerminateActor(graceful=True))
        else:
            self.node.workers.kill(step.worker, reason)

    def _publish(
        self, actor_id: bytes, state: str, worker: bytes | None, incarnation: int, cause: object
    ) -> None:
        cause = self.in_words(cause)
        row = self.actors.get(actor_id)
        pid = self._pid_of(row, worker) if row is not None else 0
        for caller in self._callers.get(actor_id, ()):
            process = self.node.processes.get(caller)
            if process is not None:
                process.line.send(ActorChanged(actor_id, state, worker, incarnation, cause, pid))
        owner = self.node.processes.get(row.owner) if row is not None else None
        if state == DEAD:
            self._callers.pop(actor_id, None)
            for _, fd in self._lanes.pop(actor_id, []):
                os.close(fd)
            if owner is not None:
                owner.line.send(ActorDead(actor_id, row is not None and self.actors.has_name(row)))
            self._leases.pop(actor_id, None)
            if row is not None:
                self._slim(row)
        self.node.chronicle.actor_changed(actor_id)

    def _slim(self, row: ActorRow) -> None:
        """Keep of an actor that has ended what people ask for."""
        spec = registration_of(row)
        row.spec = {key: value for key, value in spec.items() if key in _EPITAPH}
        if self.actors.has_name(row):
            row.spec["handle"] = spec["handle"]  # the actor can still be found by its name
        if len(self._known_leases) >= _LEASES_MAX:
            self._known_leases.clear()
        row.spec["lease"] = self._known_leases.setdefault(spec["lease"], spec["lease"])

    def _pid_of(self, row: ActorRow, worker: bytes | None) -> int:
        """The pid of the actor's process; of one that is gone, as of its last one, what was noted of it."""
        process = self.node.processes.get(worker) if worker else None
        return process.pid if process is not None else int(registration_of(row).get("pid") or 0)

    def _tell(self, process: Process, row: ActorRow) -> None:
        cause = self.in_words(row.cause)
        pid = self._pid_of(row, row.worker)
        process.line.send(ActorChanged(row.actor_id, row.state, row.worker, row.incarnation, cause, pid))


def _environment_error(row: ActorRow, environment: Environment) -> Exception:
    return RuntimeEnvSetupError(
        f"The runtime environment of actor {registration_of(row)['class_name']} ({row.actor_id.hex()}) could not be "
        f"set up: {environment.error}",
        **{**environment.facts, "actor_id": row.actor_id.hex()},
    )
