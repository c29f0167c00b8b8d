"""Which processes still need which object: reference counting between processes, as a pure state machine.

Owns the counts. Refuses to free anything: it only says, in instructions, what is free and what to
tell whom. Every process that holds refs has one `References`; its owner calls it under its lock.

How a ref travels
-----------------
A *giver* hands a ref to a *receiver* inside arguments, a result, or a value it was asked for. The
giver's hold must last until the receiver's own hold is known to the owner, or is over::

    giver ──args(ref)──► receiver       giver pins the ref for the length of the task
    giver ◄─reply(held)─ receiver       "I still hold it": the giver keeps a hold for the receiver
                         receiver ──borrow──► owner
                         receiver ◄─borrowed─ owner
    giver ◄───unhold──── receiver       now the giver may forget
                         receiver ──unborrow──► owner      when its last local hold goes

If giver and owner are one, ``held`` is the registration itself: three of the five messages vanish.
Results and values travel the same way, with the sender as the giver.

Guarantees: while any live process holds a ref, some live process' hold is counted at the owner.
Assumes: messages between two processes are delivered, in any order between different channels, so
every counter between two processes may go below zero for a moment and only its sum counts; a
process' death is announced after its messages were read, or its later messages are ignored.
The one window: a giver that is killed between its reply and the receiver's registration.
"""

from __future__ import annotations

from collections.abc import Iterable

from sundog.ids import PROCESS_BYTES

# Instructions, drained by the caller with `take()`:
#   ("free", object_id)            no process needs it: drop the value, recycle or unlink its segment
#   ("gone", object_id)            a borrowed ref has no hold left here: drop its cached value
#   ("send", process_id, message)  tell another process; messages are handled by `on_message` there
#   ("lost", object_id)            the owner had freed it already: reading it is an error
Instruction = tuple[object, ...]

# Messages of a dead process arrive before the report of its death, or soon after. After this many further
# deaths none is expected.
DEAD_MAX = 10_000


class Owned:
    """An object of ours with more to it than the one implicit hold of its maker."""

    __slots__ = ("borrowers", "local")

    def __init__(self, local: int) -> None:
        self.local = local
        self.borrowers: dict[bytes, int] = {}


class BorrowedRef:
    """An object of another owner that this process holds."""

    __slots__ = ("debts", "local", "pending", "registered")

    def __init__(self) -> None:
        self.local = 0
        self.registered = 0  # how often the owner counts this process
        self.pending = False  # a `borrow` of this process is on its way
        self.debts: list[bytes] = []  # givers that hold the object until this process is registered


class References:
    """The reference table of one process.

    An owned object that only its maker holds has no entry: its one hold is implicit, so the
    common life of an object (made, read, dropped) costs one dict look-up here.
    """

    def __init__(self, me: bytes) -> None:
        self.me = me
        self.owned: dict[bytes, Owned] = {}
        self.borrowed: dict[bytes, BorrowedRef] = {}
        self._child: dict[tuple[bytes, bytes], int] = {}  # (receiver, object) -> holds kept for it
        self._of: dict[bytes, set[bytes]] = {}  # process -> owned objects it borrows
        self._dead: dict[bytes, None] = {}  # in the order of their deaths
        self._out: list[Instruction] = []

    def take(self) -> list[Instruction]:
        """The instructions since the last call."""
        out = self._out
        if out:
            self._out = []
        return out

    # ------------------------------------------------------------------ local holds
    def hold(self, oid: bytes) -> None:
        """Add one hold: a new `ObjectRef`, a task in flight, a container, a view of its bytes."""
        if oid[:PROCESS_BYTES] == self.me:
            owned = self.owned.get(oid)
            if owned is None:
                owned = self.owned[oid] = Owned(1)
            owned.local += 1
        else:
            entry = self.borrowed.get(oid)
            if entry is None:
                entry = self.borrowed[oid] = BorrowedRef()
            entry.local += 1

    def hold_new(self, oid: bytes) -> None:
        """A hold on an object of ours that has no maker's hold (a generator's item, a nested result)."""
        owned = self.owned.get(oid)
        if owned is None:
            owned = self.owned[oid] = Owned(0)
        owned.local += 1

    def drop(self, oid: bytes) -> None:
        """Drop one hold."""
        if oid[:PROCESS_BYTES] == self.me:
            owned = self.owned.get(oid)
            if owned is None:
                self._out.append(("free", oid))
                return
            owned.local -= 1
            self._settle_owned(oid, owned)
            return
        entry = self.borrowed.get(oid)
        if entry is not None:
            entry.local -= 1
            self._settle_borrowed(oid, entry)

    def _settle_owned(self, oid: bytes, owned: Owned) -> None:
        if owned.local <= 0 and not owned.borrowers:
            del self.owned[oid]
            self._out.append(("free", oid))

    def _settle_borrowed(self, oid: bytes, entry: BorrowedRef) -> None:
        # While a registration is on its way the entry stays: the answer settles it.
        if entry.local > 0 or entry.pending:
            return
        del self.borrowed[oid]
        if entry.registered:
            self._send(oid[:PROCESS_BYTES], ("unborrow", oid, entry.registered))
        self._pay(oid, entry)
        self._out.append(("gone", oid))

    # ------------------------------------------------------------------ giving
    def give(self, receiver: bytes, oids: Iterable[bytes]) -> None:
        """We send `receiver` a result or a value that contains these refs (call before sending)."""
        for oid in oids:
            if oid[:PROCESS_BYTES] == self.me:
                owned = self.owned.get(oid)
                if owned is None:
                    owned = self.owned[oid] = Owned(1)
                self._count_borrower(oid, owned, receiver, 1)
            else:
                self._keep_for(receiver, oid)

    def accept(self, giver: bytes, oids: Iterable[bytes]) -> None:
        """A result or value with these refs arrived from `giver`; each gets one hold here (its container's)."""
        for oid in oids:
            self.hold(oid)
            owner = oid[:PROCESS_BYTES]
            if owner == self.me:
                self._send(giver, ("unhold", oid))
            elif owner == giver:
                self.borrowed[oid].registered += 1
            else:
                self._register(oid, self.borrowed[oid], giver)

    # ------------------------------------------------------------------ arguments
    def still_held(self, giver: bytes, oids: Iterable[bytes]) -> list[bytes]:
        """At the end of a task: which refs of its arguments we still hold, to be told in the reply."""
        held = []
        for oid in oids:
            # A registration on its way does not count: its giver may hold the ref only because this process
            # holds it for the giver. Then the pin of this task is all that keeps the object.
            entry = self.borrowed.get(oid)
            if entry is None or entry.registered or entry.local <= 0:
                continue
            held.append(oid)
            if oid[:PROCESS_BYTES] == giver:
                entry.registered += 1
            else:
                self._register(oid, entry, giver)
        return held

    def reply_held(self, receiver: bytes, oids: Iterable[bytes]) -> None:
        """A reply says that `receiver` keeps holding these (call before dropping the task's own holds)."""
        self.give(receiver, oids)

    # ------------------------------------------------------------------ messages
    def on_message(self, sender: bytes, message: tuple[object, ...], known: bool = True) -> None:
        """Handle a message of another process' table. `known`: whether we still have an object of ours."""
        kind = message[0]
        oid = message[1]
        assert isinstance(oid, bytes)
        if kind == "borrow":
            if sender in self._dead:
                return
            if known:
                owned = self.owned.get(oid)
                if owned is None:
                    owned = self.owned[oid] = Owned(1)
                self._count_borrower(oid, owned, sender, 1)
            self._send(sender, ("borrowed", oid, known))
        elif kind == "borrowed":
            self._on_borrowed(oid, bool(message[2]))
        elif kind == "unborrow":
            count = message[2]
            assert isinstance(count, int)
            owned = self.owned.get(oid)
            if owned is None and known and oid[:PROCESS_BYTES] == self.me and sender not in self._dead:
                # This message has overtaken the reply that counts the sender: so far the object has only its
                # maker's hold.
                owned = self.owned[oid] = Owned(1)
            if owned is not None and sender not in self._dead:
                self._count_borrower(oid, owned, sender, -count)
                self._settle_owned(oid, owned)
        elif kind == "unhold":
            if sender not in self._dead:
                self._count_child(sender, oid, -1)

    def process_died(self, process: bytes) -> None:
        """Forget every hold of, and every hold kept for, a dead process."""
        self._dead[process] = None
        if len(self._dead) > DEAD_MAX:
            del self._dead[next(iter(self._dead))]
        for oid in self._of.pop(process, ()):
            owned = self.owned.get(oid)
            if owned is not None and owned.borrowers.pop(process, None) is not None:
                self._settle_owned(oid, owned)
        for key in [k for k in self._child if k[0] == process]:
            count = self._child.pop(key)
            if count > 0:
                self.drop(key[1])
        for oid, entry in list(self.borrowed.items()):
            if entry.pending and oid[:PROCESS_BYTES] == process:
                self._on_borrowed(oid, False)

    # ------------------------------------------------------------------ what is left
    def is_known(self, oid: bytes) -> bool:
        """Whether any hold is recorded explicitly here."""
        return oid in self.owned or oid in self.borrowed

    def has_dependants(self) -> bool:
        """Whether other processes rely on this one: it owns what they hold, or keeps holds for them."""
        return any(owned.borrowers for owned in self.owned.values()) or any(
            count > 0 for count in self._child.values()
        )

    # ------------------------------------------------------------------ inner parts
    def _send(self, process: bytes, message: tuple[object, ...]) -> None:
        if process not in self._dead:
            self._out.append(("send", process, message))

    def _count_borrower(self, oid: bytes, owned: Owned, process: bytes, change: int) -> None:
        if process in self._dead:
            return
        count = owned.borrowers.get(process, 0) + change
        if count:
            owned.borrowers[process] = count
            self._of.setdefault(process, set()).add(oid)
            return
        owned.borrowers.pop(process, None)
        mine = self._of.get(process)
        if mine is not None:
            mine.discard(oid)
            if not mine:
                del self._of[process]

    def _keep_for(self, receiver: bytes, oid: bytes) -> None:
        if receiver not in self._dead:
            self._count_child(receiver, oid, 1)

    def _count_child(self, receiver: bytes, oid: bytes, change: int) -> None:
        # The count falls below zero when `unhold` overtakes the reply that it answers. The object is held
        # exactly while the count is above zero.
        key = (receiver, oid)
        before = self._child.get(key, 0)
        after = before + change
        if after:
            self._child[key] = after
        else:
            self._child.pop(key, None)
        if before <= 0 < after:
            self.hold(oid)
        elif after <= 0 < before:
            self.drop(oid)

    def _register(self, oid: bytes, entry: BorrowedRef, giver: bytes) -> None:
        if entry.registered or oid[:PROCESS_BYTES] in self._dead:
            # The owner has registered this process already; or there is no owner that could answer.
            self._send(giver, ("unhold", oid))
            return
        entry.debts.append(giver)
        if not entry.pending:
            entry.pending = True
            self._send(oid[:PROCESS_BYTES], ("borrow", oid))

    def _on_borrowed(self, oid: bytes, known: bool) -> None:
        entry = self.borrowed.get(oid)
        if entry is None or not entry.pending:
            return
        entry.pending = False
        if known:
            entry.registered += 1
        else:
            self._out.append(("lost", oid))
        self._pay(oid, entry)
        self._settle_borrowed(oid, entry)

    def _pay(self, oid: bytes, entry: BorrowedRef) -> None:
        debts, entry.debts = entry.debts, []
        for giver in debts:
            self._send(giver, ("unhold", oid))
