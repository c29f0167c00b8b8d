"""A whole cluster in one process, driven by a seed: owners, one control program, worker processes, the
kernel.

    owner ──want·release·register·kill──► control program (Leases + Actors) ──Grant·Reclaim·Publish──► owner
    worker ──started·blocked·ready·exited──►      │                              ──Construct·Stop──► worker
    kernel ──a process ended──────────────►───────┘

Every pair of sender and receiver has a channel of its own. Order holds within a channel; which channel
moves next is up to the seed, so anything sent through two of them may overtake. Processes are killed at any
moment; what they had sent before still arrives. The world keeps its own books (``books.py`` of what was
granted, placed, constructed), and compares them with what the machines do after every step.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from sundog.state import actors as A
from sundog.state import leases as L
from sundog.state.actors import ActorInstruction, Actors, NameTaken
from sundog.state.leases import Instruction, Leases, LeaseSpec
from tests.state.simulation.books import ActorBook, Books
from tests.state.simulation.network import Message, Network
from tests.state.simulation.owners import Owner

CONTROL = b"control-program-"
NODES_MAX = 6


@dataclass(eq=False)
class Process:
    """A worker process as the operating system knows it."""

    worker: bytes
    node_id: bytes
    alive: bool = True
    blocked: bool = False
    constructing: tuple[bytes, int] | None = None
    actor: tuple[bytes, int] | None = None


SPECS = (
    LeaseSpec((("CPU", 1.0),), "env-a"),
    LeaseSpec((("CPU", 0.5),), "env-a"),
    LeaseSpec((("CPU", 2.0),), "env-b"),
    LeaseSpec((("CPU", 1.0), ("GPU", 0.3)), "env-a"),
    LeaseSpec((("CPU", 1.0), ("GPU", 1.0)), "env-b", ("spread",)),
    LeaseSpec((), "env-a"),
    LeaseSpec((("CPU", 64.0),), "env-a"),  # no node has that much
    LeaseSpec((("custom", 0.1),), "env-a", label_selector=(("zone", "!west"),)),
    LeaseSpec(
        (("CPU", 1.0),), "env-a", label_selector=(("zone", "west"),), fallbacks=((("zone", "!west"),),)
    ),
)
ACTOR_SPECS = (
    LeaseSpec((), "env-a", placement=(("CPU", 1.0),), permanent=True),
    LeaseSpec((("CPU", 1.0),), "env-a", permanent=True),
    LeaseSpec((("GPU", 0.5),), "env-b", permanent=True),
)
GROUP_BUNDLES: tuple[tuple[list[dict[str, float]], str], ...] = (
    ([{"CPU": 1.0}], "PACK"),
    ([{"CPU": 1.0, "GPU": 0.5}, {"CPU": 1.0}], "SPREAD"),
    ([{"CPU": 1.0}, {"CPU": 1.0}], "STRICT_PACK"),
    ([{"CPU": 2.0}, {"CPU": 1.0}], "STRICT_SPREAD"),
)


class World:
    """One run: ``step`` does one random thing, ``finish`` lets everything end."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.now = 0.0
        self.net = Network(self.rng)
        rng = self.rng
        self.leases = Leases(
            starting_max=rng.choice((1, 2, 8)), worker_max=rng.choice((0, 0, 3, 6)), idle_worker_s=2.0, keep=1
        )
        for job, weight in (("0", 1.0), ("1", rng.choice((1.0, 3.0)))):
            self.leases.tenants.set_terms(job, weight, 0.0)
        self.actors = Actors()
        self.books = Books()
        self.processes: dict[bytes, Process] = {}
        self.owners = {owner.owner: owner for owner in (Owner(self._id("owner", n)) for n in range(3))}
        self.groups: list[bytes] = []
        self.late: list[Message] = []
        self.quiet = False
        self.touched = True
        self._counter = 0
        for n in range(rng.choice((1, 1, 2, 3))):
            totals = {"CPU": float(rng.choice((2, 4))), "GPU": float(rng.choice((0, 1, 2))), "custom": 1.0}
            self.add_node(self._id("node", n), totals, {"zone": rng.choice(("east", "west"))})

    @staticmethod
    def _id(kind: str, n: int) -> bytes:
        return f"{kind}-{n}".encode()

    def fresh(self, kind: str) -> bytes:
        self._counter += 1
        return self._id(kind, self._counter)

    # ------------------------------------------------------------------ the control program

    def add_node(self, node_id: bytes, totals: dict[str, float], labels: dict[str, str]) -> None:
        self.books.add_node(node_id, totals)
        self.do(self.leases.add_node(node_id, totals, labels, self.now))

    def do(self, instructions: list[Instruction]) -> None:
        """Carry out what the lease machine says."""
        for told in instructions:
            if isinstance(told, L.Grant):
                assert self.books.known(told.worker), (
                    f"{told} to a worker that is not known, or known to be dead"
                )
                self.books.granted(told)
                if told.owner == CONTROL:
                    assert isinstance(told.key, bytes)
                    self.do_actors(self.actors.placed(told.key, told.worker, told.lease, self.now))
                elif told.owner in self.owners:
                    self.net.send(CONTROL, told.owner, "granted", told.lease, told)
            elif isinstance(told, L.StartWorker):
                self.start_process(told.node_id, told.env_key)
            elif isinstance(told, L.StopWorker):
                self.books.stopped(told.worker)
                self.net.send(CONTROL, told.worker, "stop")
            elif isinstance(told, L.Reclaim):
                assert told.lease in self.books.grants, f"{told} of a lease that is not granted"
                self.books.lost(told.lease)
                self.net.send(CONTROL, told.owner, "reclaim", told.lease)
            elif isinstance(told, L.Infeasible):
                self.books.infeasible(told)
            elif isinstance(told, L.GroupReady):
                self.books.group_ready(told.pg_id)
            elif isinstance(told, L.GroupRemoved):
                self.books.group_removed(told.pg_id)

    def do_actors(self, instructions: list[ActorInstruction]) -> None:
        """Carry out what the actor machine says."""
        for told in instructions:
            if isinstance(told, A.Publish):
                self.books.published(told)
            elif isinstance(told, A.PlaceActor):
                spec = self.books.actor_specs[told.actor_id]
                self.want(CONTROL, told.actor_id, spec, 1)
            elif isinstance(told, A.Unplace):
                self.want(CONTROL, told.actor_id, self.books.actor_specs[told.actor_id], 0)
            elif isinstance(told, A.Construct):
                self.books.constructed(told)
                self.net.send(CONTROL, told.worker, "construct", told.actor_id, told.incarnation)
            elif isinstance(told, A.Terminate):
                self.net.send(CONTROL, told.worker, "stop")

    def want(
        self, owner: bytes, key: object, spec: LeaseSpec, count: int, last_grant: int | None = None
    ) -> None:
        unread = self.books.unread(owner, key, spec, last_grant) if last_grant is not None else 0
        self.books.wanted(owner, key, spec, max(0, count - unread))
        assert isinstance(key, (bytes, str))
        job = str(owner[-1] % 2)
        self.do(self.leases.want(owner, key, spec, count, self.now, job, last_grant))

    def handle(self, sender: bytes, message: Message) -> None:
        """The control program reads one message."""
        self.touched = True
        kind, *rest = message
        if self.rng.random() < 0.05 and len(self.late) < 20:
            self.late.append((sender, *message))
        books, leases, actors, now = self.books, self.leases, self.actors, self.now
        if kind == "want":
            key, spec, count, last_grant = rest
            assert isinstance(spec, LeaseSpec) and isinstance(count, int) and isinstance(last_grant, int)
            if sender not in books.dead_owners:
                self.want(sender, key, spec, count, last_grant)
        elif kind == "release":
            lease, reusable = rest
            assert isinstance(lease, int)
            if reusable:
                books.released(lease)
            self.do(leases.release(lease, now, bool(reusable)))
        elif kind == "started":
            node_id, env_key = rest
            assert isinstance(node_id, bytes) and isinstance(env_key, str)
            books.started(sender)
            self.do(leases.worker_started(sender, node_id, env_key, now))
        elif kind == "start failed":
            node_id, env_key = rest
            assert isinstance(node_id, bytes) and isinstance(env_key, str)
            self.do(leases.worker_start_failed(node_id, env_key, now))
        elif kind == "blocked":
            books.blocked(sender)
            self.do(leases.blocked(sender, now))
        elif kind == "unblocked":
            books.unblocked(sender)
            self.do(leases.unblocked(sender, now))
        elif kind == "died":
            (process,) = rest
            assert isinstance(process, bytes)
            books.died(process)
            self.do(leases.worker_died(process, now))
            self.do_actors(actors.worker_died(process, "signal 9", now))
        elif kind == "owner died":
            (owner,) = rest
            assert isinstance(owner, bytes)
            books.owner_died(owner)
            self.do(leases.owner_died(owner, now))
            self.do_actors(actors.owner_died(owner, now))
        elif kind == "create group":
            pg_id, bundles, strategy = rest
            if sender not in books.dead_owners:
                assert isinstance(pg_id, bytes) and isinstance(bundles, list) and isinstance(strategy, str)
                self.do(leases.create_group(pg_id, bundles, strategy, sender, now))
        elif kind == "remove group":
            (pg_id,) = rest
            assert isinstance(pg_id, bytes)
            self.do(leases.remove_group(pg_id, now))
        else:
            self.handle_actor(sender, message)

    def handle_actor(self, sender: bytes, message: Message) -> None:
        kind, actor_id, *rest = message
        assert isinstance(actor_id, bytes)
        actors, now = self.actors, self.now
        if kind == "register":
            name, max_restarts, detached, spec = rest
            assert isinstance(name, str) and isinstance(max_restarts, int) and isinstance(spec, LeaseSpec)
            if sender in self.books.dead_owners:
                return
            try:
                out = actors.register(
                    actor_id,
                    owner=sender,
                    name=name,
                    namespace="n",
                    detached=bool(detached),
                    max_restarts=max_restarts,
                    now=now,
                )
            except NameTaken as taken:
                assert self.books.name_is_taken(name, taken.existing_id)
            else:
                if out:  # else it was registered before
                    book = ActorBook(name, max_restarts, sender, bool(detached))
                    self.books.registered(actor_id, spec, book)
                self.do_actors(out)
        elif kind == "start":
            self.do_actors(actors.start(actor_id, now))
        elif kind == "ready":
            (incarnation,) = rest
            assert isinstance(incarnation, int)
            self.do_actors(actors.ready(actor_id, incarnation, now))
        elif kind == "init failed":
            (incarnation,) = rest
            assert isinstance(incarnation, int)
            self.do_actors(actors.init_failed(actor_id, b"error", incarnation, now))
        elif kind == "exited":
            (incarnation,) = rest
            assert isinstance(incarnation, int)
            self.do_actors(actors.exited(actor_id, "exit_actor", incarnation, now))
        elif kind == "kill":
            (no_restart,) = rest
            if no_restart and actor_id in self.books.actors:
                self.books.actors[actor_id].let_go = True
            self.do_actors(actors.kill(actor_id, bool(no_restart), "kill()", now))
        elif kind == "out of scope":
            if actor_id in self.books.actors:
                self.books.actors[actor_id].let_go = True
            self.do_actors(actors.out_of_scope(actor_id, now))

    # ------------------------------------------------------------------ processes

    def start_process(self, node_id: bytes, env_key: str) -> None:
        worker = self.fresh("worker")
        roll = 1.0 if self.quiet else self.rng.random()
        if roll < 0.05:
            self.net.send(b"zygote", CONTROL, "start failed", node_id, env_key)
            return
        self.processes[worker] = Process(worker, node_id)
        self.net.send(worker, CONTROL, "started", node_id, env_key)
        if roll < 0.1:
            self.kill_process(worker)

    def kill_process(self, worker: bytes) -> None:
        process = self.processes.get(worker)
        if process is not None and process.alive:
            process.alive = False
            self.net.send(b"kernel", CONTROL, "died", worker)

    def lose_node(self, node_id: bytes) -> None:
        """A machine is gone: nothing of it is heard any more, its workers' deaths may still be reported."""
        self.touched = True
        for process in self.processes.values():
            if process.node_id == node_id:
                process.alive = False
        workers = [process.worker for process in self.processes.values() if process.node_id == node_id]
        self.books.node_lost(node_id, workers)
        self.do(self.leases.remove_node(node_id, self.now))
        for worker in workers:
            self.do_actors(self.actors.worker_died(worker, "node lost", self.now))
            if self.rng.random() < 0.5:
                self.net.send(b"kernel", CONTROL, "died", worker)

    def drain_node(self, node_id: bytes) -> None:
        """A node is to leave: it does so once no task runs there, which `tick` looks after."""
        self.touched = True
        self.books.draining.add(node_id)
        self.books.told.clear()
        self.do(self.leases.drain_node(node_id, self.now))

    def join_node(self) -> None:
        """One more node: what was infeasible may now run."""
        self.touched = True
        self.books.told.clear()
        self.add_node(self.fresh("joined"), {"CPU": 2.0, "GPU": 1.0, "custom": 1.0}, {"zone": "east"})

    def worker_reads(self, worker: bytes, message: Message) -> None:
        process = self.processes.get(worker)
        if process is None or not process.alive:
            return
        if message[0] == "stop":
            if process.actor is not None and self.rng.random() < 0.3:
                self.net.send(worker, CONTROL, "exited", *process.actor)
            self.kill_process(worker)
        elif message[0] == "construct":
            _, actor_id, incarnation = message
            assert isinstance(actor_id, bytes) and isinstance(incarnation, int)
            process.actor = (actor_id, incarnation)
            failed = not self.quiet and self.rng.random() < 0.1
            self.net.send(worker, CONTROL, "init failed" if failed else "ready", actor_id, incarnation)

    def owner_reads(self, owner: Owner, message: Message) -> None:
        kind, lease, *rest = message
        assert isinstance(lease, int)
        if not owner.alive:
            return
        if kind == "granted":
            (grant,) = rest
            assert isinstance(grant, L.Grant)
            spec = self.books.specs[lease]
            owner.reads(grant, spec, self.books.useless_of[grant.owner, grant.key, spec])
        else:
            owner.asked_back.add(lease)

    # ------------------------------------------------------------------ one random thing

    def deliver(self) -> bool:
        got = self.net.next()
        if got is None:
            return False
        sender, receiver, message = got
        if receiver == CONTROL:
            self.handle(sender, message)
        elif receiver in self.owners:
            self.owner_reads(self.owners[receiver], message)
        else:
            self.worker_reads(receiver, message)
        return True

    def step(self) -> None:
        rng = self.rng
        roll = rng.random()
        if roll < 0.45:
            self.deliver()
        elif roll < 0.80:
            owner = rng.choice(list(self.owners.values()))
            if owner.alive:
                self.owner_acts(owner)
        elif roll < 0.90:
            self.worker_acts()
        elif roll < 0.93:
            self.repeat_something_late()
        elif roll < 0.932 and len(self.books.totals) > 1 + len(self.books.draining):
            self.lose_node(rng.choice(list(self.books.totals)))
        elif roll < 0.934 and len(self.books.totals) > 1 and not self.books.draining:
            self.drain_node(rng.choice(list(self.books.totals)))
        elif roll < 0.936 and len(self.books.totals) < NODES_MAX:
            self.join_node()
        else:
            self.tick(rng.choice((0.0, 0.05, 0.3, 1.0)))
            return
        self.check()

    def owner_acts(self, owner: Owner) -> None:
        rng, me = self.rng, owner.owner
        roll = rng.random()
        if roll < 0.35:
            if self.groups and rng.random() < 0.3:
                spec = LeaseSpec(
                    (("CPU", 1.0),), "env-a", ("pg", rng.choice(self.groups), rng.choice((-1, -1, 0, 1)))
                )
            else:
                spec = rng.choice(SPECS)
            key = rng.choice(("f", "g", "h"))
            self.net.send(me, CONTROL, *owner.wants(key, spec, rng.choice((0, 1, 1, 2, 4))))
        elif roll < 0.75:
            if owner.leases:
                lease = rng.choice(list(owner.leases))
                del owner.leases[lease]
                self.net.send(me, CONTROL, "release", lease, rng.random() < 0.9)
        elif roll < 0.92:
            self.owner_handles_actors(owner)
        elif roll < 0.97:
            if self.groups and rng.random() < 0.4:
                self.net.send(me, CONTROL, "remove group", rng.choice(self.groups))
            else:
                bundles, strategy = rng.choice(GROUP_BUNDLES)
                self.groups.append(self.fresh("group"))
                self.net.send(me, CONTROL, "create group", self.groups[-1], bundles, strategy)
        elif rng.random() < 0.3:
            owner.alive = False
            self.net.send(b"kernel", CONTROL, "owner died", me)

    def owner_handles_actors(self, owner: Owner) -> None:
        rng, me = self.rng, owner.owner
        roll = rng.random()
        if not owner.actors or roll < 0.4:
            actor_id = self.fresh("actor")
            owner.actors.append(actor_id)
            name = rng.choice(("", "", "counter", "store"))
            self.net.send(
                me,
                CONTROL,
                "register",
                actor_id,
                name,
                rng.choice((0, 0, 1, 2, -1)),
                rng.random() < 0.2,
                rng.choice(ACTOR_SPECS),
            )
            self.net.send(me, CONTROL, "start", actor_id)
            return
        # Any owner may have been passed a handle.
        actor_id = rng.choice(rng.choice(list(self.owners.values())).actors or owner.actors)
        if roll < 0.8:
            self.net.send(me, CONTROL, "kill", actor_id, rng.random() < 0.5)
        else:
            self.net.send(me, CONTROL, "out of scope", actor_id)

    def worker_acts(self) -> None:
        living = [process for process in self.processes.values() if process.alive]
        if not living:
            return
        process = self.rng.choice(living)
        roll = self.rng.random()
        if roll < 0.3:
            self.kill_process(process.worker)
        elif roll < 0.4 and process.actor is not None:
            self.net.send(process.worker, CONTROL, "exited", *process.actor)
            self.kill_process(process.worker)
        else:
            process.blocked = not process.blocked
            self.net.send(process.worker, CONTROL, "blocked" if process.blocked else "unblocked")

    def repeat_something_late(self) -> None:
        """A message that was handled before comes once more."""
        if self.late:
            sender, *message = self.rng.choice(self.late)
            assert isinstance(sender, bytes)
            if message[0] in ("started", "start failed", "want", "create group", "register"):
                return  # only those who cannot repeat: requests are idempotent, and births are told once
            self.handle(sender, tuple(message))

    # ------------------------------------------------------------------ the end

    def settle(self) -> None:
        """Let everything that is on its way arrive."""
        while self.deliver():
            self.check()

    def check(self) -> None:
        if self.touched:  # owners and workers that read a message change nothing that could be checked
            self.touched = False
            self.books.check(self.leases, self.actors)

    def finish(self, bound: int = 200) -> None:
        """Nobody dies or asks any more, everybody ends what they do: all that is feasible must be granted."""
        self.quiet = True
        self.settle()
        self.books.check_settled(self.actors)
        for owner in self.owners.values():
            if owner.alive:
                owner.check_settled(self.leases)
        # Actors and groups last until someone ends them; what they keep would be missing for ever.
        for row in list(self.actors.rows()):
            self.do_actors(self.actors.kill(row.actor_id, True, "end", self.now))
        for pg_id in self.groups:
            self.do(self.leases.remove_group(pg_id, self.now))
        for _ in range(bound):
            self.settle()
            for owner in self.owners.values():
                for lease in list(owner.leases) if owner.alive else ():
                    del owner.leases[lease]
                    self.net.send(owner.owner, CONTROL, "release", lease, True)
            for process in self.processes.values():
                if process.alive and process.blocked:
                    process.blocked = False
                    self.net.send(process.worker, CONTROL, "unblocked")
            if not self.net and not self.books.unmet(self.leases):
                return
            self.tick(0.25)
        raise AssertionError(f"still waiting after {bound} rounds: {self.books.unmet(self.leases)}")

    def tick(self, seconds: float) -> None:
        self.touched = True
        self.now += seconds
        self.books.scheduled_at = self.now
        self.do(self.leases.tick(self.now))
        for node_id in list(self.books.draining):
            if not self.leases.tasks_on(node_id):
                self.lose_node(node_id)
        self.check()

    def end_everything(self) -> None:
        """Every owner leaves: then all there was must be there again."""
        for owner in self.owners.values():
            if owner.alive:
                owner.alive = False
                self.net.send(b"kernel", CONTROL, "owner died", owner.owner)
        self.settle()
        assert all(row.state == A.DEAD for row in self.actors.rows())
        assert self.leases.available() == self.leases.totals(), "resources did not come back"
        assert not self.leases.table(self.now) and not self.leases.held(self.now) and not self.books.grants
