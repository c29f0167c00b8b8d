"""Processes that pass refs to each other in every way there is, driven by a seed.

    caller ──task(args)──► worker          refs in arguments: the caller pins them until the reply
    caller ◄──reply(result, held)── worker refs in results; and what the worker goes on holding
    holder ──get──► owner ──value──► holder   refs inside a value that was asked for
    any ◄──borrow·borrowed·unborrow·unhold──► any

Calls and the messages of the reference tables use different channels, so each may overtake the other; order
holds within a channel. The world counts for itself who holds what: a variable, a task's argument, a pin,
the contents of a stored value, a message on its way. An object that anyone alive holds must not be freed;
when nobody does, it must be.

A process that is killed takes its holds along. What it alone kept alive for others at that moment (it had
handed on a ref of a third process, and the receiver was not registered yet) is the one documented window:
such objects are marked, and may be lost; they must still be freed, once, and leave nothing behind.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

from sundog.ids import PROCESS_BYTES
from sundog.state.references import References
from tests.state.simulation.network import Message, Network

CALLS = b"/calls"
TABLES = b"/refs"
KERNEL = b"kernel"


@dataclass(eq=False)
class Call:
    """A task at its caller: what is pinned for it, and the object that its result becomes."""

    worker: bytes
    pinned: list[bytes]
    result: bytes


@dataclass(eq=False)
class Task:
    """The same task at its worker."""

    number: int
    caller: bytes
    args: list[bytes]
    result: bytes


@dataclass(eq=False)
class Party:
    """One process."""

    me: bytes
    refs: References
    alive: bool = True
    variables: list[bytes] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
    calls: dict[int, Call] = field(default_factory=dict)
    contents: dict[bytes, list[bytes]] = field(default_factory=dict)
    """Objects owned here that are not freed → the refs in their values."""
    asking: Counter[bytes] = field(default_factory=Counter)
    mourned: set[bytes] = field(default_factory=set)


class Sharing:
    """One run."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.net = Network(self.rng)
        count = self.rng.choice((2, 3, 3, 4, 5))
        names = [f"proc-{n:03d}".encode() for n in range(count)]
        assert all(len(name) == PROCESS_BYTES for name in names)
        self.parties = {name: Party(name, References(name)) for name in names}
        self.holds: Counter[bytes] = Counter()
        self.marked: set[bytes] = set()
        self.freed: set[bytes] = set()
        self.inside: dict[bytes, list[bytes]] = {}
        self.mortal = seed % 2 == 1  # every other run loses nobody: there nothing at all is excused
        self._counter = 0

    # ------------------------------------------------------------------ holds

    def new_id(self, owner: bytes) -> bytes:
        self._counter += 1
        return owner + self._counter.to_bytes(12, "little")

    def hold(self, party: Party, oid: bytes) -> None:
        self.holds[oid] += 1
        if oid[:PROCESS_BYTES] == party.me and oid not in party.contents:
            assert oid in self.marked, f"{oid!r} came back to its owner, who had freed it"
        party.refs.hold(oid)

    def drop(self, party: Party, oid: bytes) -> None:
        self.holds[oid] -= 1
        party.refs.drop(oid)
        self.carry_out(party)

    def carry_out(self, party: Party) -> None:
        """Do what the reference table of ``party`` says."""
        for told in party.refs.take():
            if told[0] == "send":
                receiver, message = told[1], told[2]
                assert isinstance(receiver, bytes) and isinstance(message, tuple)
                self.net.send(party.me + TABLES, receiver, *message)
            elif told[0] == "free":
                oid = told[1]
                assert isinstance(oid, bytes)
                self.free(party, oid)
            elif told[0] == "lost":
                oid = told[1]
                assert isinstance(oid, bytes)
                owner = self.parties[oid[:PROCESS_BYTES]]
                assert oid in self.marked or not owner.alive, f"{oid!r} was lost while {party.me!r} held it"

    def free(self, party: Party, oid: bytes) -> None:
        assert oid not in self.freed, f"{oid!r} was freed twice"
        assert oid[:PROCESS_BYTES] == party.me
        assert self.holds[oid] == 0 or oid in self.marked, f"{oid!r} was freed while held"
        self.freed.add(oid)
        for inner in party.contents.pop(oid):
            self.drop(party, inner)

    # ------------------------------------------------------------------ what a program does

    def act(self, party: Party) -> None:
        rng = self.rng
        roll = rng.random()
        if roll < 0.2:
            self.put(party)
        elif roll < 0.45:
            if party.variables:
                at = int(rng.random() * len(party.variables))
                party.variables[at], party.variables[-1] = party.variables[-1], party.variables[at]
                self.drop(party, party.variables.pop())
        elif roll < 0.5:
            if party.variables:
                oid = rng.choice(party.variables)
                party.variables.append(oid)
                self.hold(party, oid)
        elif roll < 0.7:
            self.submit(party)
        elif roll < 0.9:
            if party.tasks:
                self.end_task(party, party.tasks.pop(int(rng.random() * len(party.tasks))), some=True)
        else:
            self.ask(party)

    def some_refs(self, party: Party, extra: list[bytes] | None = None) -> list[bytes]:
        known = party.variables + (extra or []) + [oid for task in party.tasks for oid in task.args]
        return [self.rng.choice(known) for _ in range(self.rng.choice((0, 1, 1, 2, 3)))] if known else []

    def put(self, party: Party) -> None:
        inner = self.some_refs(party)
        for oid in inner:
            self.hold(party, oid)
        self.make(party, inner)

    def make(self, party: Party, inner: list[bytes]) -> bytes:
        """A new object of this process, with its maker's one hold, in a variable."""
        oid = self.new_id(party.me)
        party.contents[oid] = self.inside[oid] = inner
        self.holds[oid] += 1
        party.variables.append(oid)
        return oid

    def submit(self, party: Party) -> None:
        others = [p.me for p in self.parties.values() if p is not party and p.me not in party.mourned]
        if not others:
            return
        args = self.some_refs(party)
        for oid in args:
            self.hold(party, oid)
        result = self.make(party, [])
        self._counter += 1
        worker = self.rng.choice(others)
        party.calls[self._counter] = Call(worker, args, result)
        self.net.send(party.me + CALLS, worker, "task", self._counter, list(args), result)

    def end_task(self, party: Party, task: Task, some: bool) -> None:
        """Return refs, keep some of the arguments (an actor's state), drop the rest, and say so."""
        rng = self.rng
        result: list[bytes] = []
        if some:
            result = [oid for oid in self.some_refs(party, task.args) if not self.reaches(oid, task.result)]
            self.inside[task.result] = result
        party.refs.give(task.caller, result)
        if self.parties[task.caller].alive:
            self.holds.update(result)  # on their way, and then in the result's value
            on_way = result
        else:
            on_way = []
        for oid in task.args:
            if some and rng.random() < 0.4:
                party.variables.append(oid)
            else:
                self.drop(party, oid)
        held = party.refs.still_held(task.caller, dict.fromkeys(task.args))
        self.carry_out(party)
        self.net.send(party.me + CALLS, task.caller, "reply", task.number, on_way, held)

    def reaches(self, oid: bytes, goal: bytes) -> bool:
        """Whether a value holds ``goal``, at any depth: values in a ring would keep each other for ever."""
        return oid == goal or any(self.reaches(inner, goal) for inner in self.inside.get(oid, ()))

    def ask(self, party: Party) -> None:
        """Get the value of a ref of somebody else."""
        far = [oid for oid in party.variables if oid[:PROCESS_BYTES] not in party.mourned | {party.me}]
        if far:
            oid = self.rng.choice(far)
            self.hold(party, oid)
            party.asking[oid] += 1
            self.net.send(party.me + CALLS, oid[:PROCESS_BYTES], "get", oid)

    # ------------------------------------------------------------------ messages

    def deliver(self) -> bool:
        got = self.net.next()
        if got is None:
            return False
        sender, receiver, message = got
        party = self.parties[receiver]
        name = sender[:PROCESS_BYTES]
        if sender == KERNEL:
            if party.alive:
                assert isinstance(message[1], bytes)
                self.mourn(party, message[1])
        elif not party.alive or name in party.mourned:
            self.undelivered(message)
        elif sender.endswith(TABLES):
            self.table_message(party, name, message)
        else:
            self.call_message(party, name, message)
        self.carry_out(party)
        return True

    def undelivered(self, message: Message) -> None:
        """The receiver is dead, or has buried the sender: what the message carried has nobody to hold it."""
        if message[0] in ("reply", "value"):
            inner = message[2]
            assert isinstance(inner, list)
            self.holds.subtract(inner)

    def table_message(self, party: Party, sender: bytes, message: Message) -> None:
        oid = message[1]
        assert isinstance(oid, bytes)
        if message[0] in ("borrow", "unborrow"):
            party.refs.on_message(sender, message, oid in party.contents)
        else:
            party.refs.on_message(sender, message)

    def call_message(self, party: Party, sender: bytes, message: Message) -> None:
        kind, subject, *rest = message
        if kind == "task":
            args, result = rest
            assert isinstance(subject, int) and isinstance(args, list) and isinstance(result, bytes)
            for oid in args:
                self.hold(party, oid)
            party.tasks.append(Task(subject, sender, args, result))
        elif kind == "reply":
            inner, held = rest
            assert isinstance(subject, int) and isinstance(inner, list) and isinstance(held, list)
            self.end_call(party, party.calls.pop(subject), sender, inner, held)
        elif kind == "get":
            assert isinstance(subject, bytes)
            assert subject in party.contents or subject in self.marked, f"{subject!r} is gone"
            inner = list(party.contents.get(subject, ()))
            party.refs.give(sender, inner)
            if self.parties[sender].alive:
                self.holds.update(inner)
            else:
                inner = []
            self.net.send(party.me + CALLS, sender, "value", subject, inner)
        elif kind == "value":
            (inner,) = rest
            assert isinstance(subject, bytes) and isinstance(inner, list)
            party.refs.accept(sender, inner)
            party.variables += inner
            party.asking[subject] -= 1
            self.drop(party, subject)

    def end_call(
        self, party: Party, call: Call, sender: bytes, inner: list[bytes], held: list[bytes]
    ) -> None:
        party.refs.accept(sender, inner)
        party.refs.reply_held(sender, held)
        if call.result in party.contents:
            party.contents[call.result] = inner
        else:
            for oid in inner:  # nobody waits for the result any more
                self.drop(party, oid)
        for oid in call.pinned:
            self.drop(party, oid)
        if self.rng.random() < 0.1:  # an item of a generator: it begins with no hold of a maker
            oid = self.new_id(party.me)
            party.contents[oid] = []
            self.holds[oid] += 1
            party.refs.hold_new(oid)
            party.variables.append(oid)

    # ------------------------------------------------------------------ death

    def kill(self, party: Party) -> None:
        party.alive = False
        for (_, oid), count in party.refs._child.items():
            if count > 0:
                self.marked.add(oid)
        for call in party.calls.values():
            self.marked.update(oid for oid in call.pinned if oid[:PROCESS_BYTES] != party.me)
        mine: list[bytes] = party.variables + [oid for task in party.tasks for oid in task.args]
        mine += [oid for call in party.calls.values() for oid in call.pinned]
        mine += [oid for inner in party.contents.values() for oid in inner]
        mine += party.asking.elements()
        self.holds.subtract(mine)
        party.variables, party.tasks, party.calls, party.contents = [], [], {}, {}
        for message in self.net.lose(party.me):
            self.undelivered(message)
        for other in self.parties.values():
            if other.alive:
                self.net.send(KERNEL, other.me, "died", party.me)

    def mourn(self, party: Party, dead: bytes) -> None:
        party.mourned.add(dead)
        party.refs.process_died(dead)
        self.carry_out(party)
        for number, call in list(party.calls.items()):
            if call.worker == dead:
                del party.calls[number]
                for oid in call.pinned:
                    self.drop(party, oid)
        for oid in [oid for oid in party.asking.elements() if oid[:PROCESS_BYTES] == dead]:
            party.asking[oid] -= 1
            self.drop(party, oid)

    # ------------------------------------------------------------------ the run

    def step(self) -> None:
        living = [party for party in self.parties.values() if party.alive]
        roll = self.rng.random()
        if roll < 0.55:
            self.deliver()
        elif roll < 0.99 or not self.mortal or len(living) < 2:
            self.act(self.rng.choice(living))
        else:
            self.kill(self.rng.choice(living))

    def finish(self) -> None:
        """Everyone drops everything; when all messages have arrived nothing may be left anywhere."""
        busy = True
        while busy:
            busy = self.deliver()
            for party in self.parties.values():
                if party.alive:
                    while party.variables:
                        self.drop(party, party.variables.pop())
                        busy = True
                    while party.tasks:
                        self.end_task(party, party.tasks.pop(), some=False)
                        busy = True
        for party in self.parties.values():
            if party.alive:
                refs = party.refs
                assert not party.contents, f"{party.me!r} never freed {party.contents}"
                # A lost object that comes back to its owner is counted as if it were new: that entry stays.
                assert not refs.owned.keys() - (self.marked & self.freed), f"{party.me!r} counts {refs.owned}"
                assert not refs.borrowed, f"{party.me!r} still borrows {refs.borrowed}"
                assert not refs._child, f"{party.me!r} still keeps {refs._child}"
                assert not refs._of, f"{party.me!r} still knows borrowers {refs._of}"
        left = {oid: n for oid, n in self.holds.items() if n and self.parties[oid[:PROCESS_BYTES]].alive}
        assert not left, f"the books do not add up: {left}"
