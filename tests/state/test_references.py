"""Reference counting, message by message: nothing is freed while somebody holds it, and all is freed in the end."""

from __future__ import annotations

from collections import deque

from sundog.state.references import DEAD_MAX, Instruction, References

A, B, C = (bytes([number]) * 8 for number in (1, 2, 3))


def object_of(process: bytes, number: int = 1) -> bytes:
    return process + number.to_bytes(8, "little") + (1).to_bytes(4, "little")


class Wire:
    """Tables of several processes, and the messages between them in the order in which they were sent."""

    def __init__(self, *processes: bytes) -> None:
        self.tables = {process: References(process) for process in processes}
        self.told: list[tuple[bytes, Instruction]] = []
        self.freed: set[bytes] = set()

    def __getitem__(self, process: bytes) -> References:
        return self.tables[process]

    def settle(self) -> None:
        """Deliver everything; what is no message is remembered in `told`."""
        waiting: deque[tuple[bytes, bytes, tuple[object, ...]]] = deque()
        while True:
            for process, table in self.tables.items():
                for instruction in table.take():
                    if instruction[0] == "send":
                        _, receiver, message = instruction
                        assert isinstance(receiver, bytes) and isinstance(message, tuple)
                        waiting.append((process, receiver, message))
                    else:
                        if instruction[0] == "free":
                            assert isinstance(instruction[1], bytes)
                            self.freed.add(instruction[1])
                        self.told.append((process, instruction))
            if not waiting:
                return
            sender, receiver, message = waiting.popleft()
            known = message[1] not in self.freed
            self.tables[receiver].on_message(sender, message, known)

    def kinds(self, process: bytes) -> list[object]:
        return [instruction[0] for told, instruction in self.told if told == process]


# ---------------------------------------------------------------------- one process
def test_an_object_that_only_its_maker_holds_has_no_entry_and_is_freed_by_one_drop() -> None:
    table = References(A)
    oid = object_of(A)
    assert not table.is_known(oid)
    table.drop(oid)
    assert table.take() == [("free", oid)] and table.take() == []


def test_each_hold_needs_a_drop_of_its_own() -> None:
    table = References(A)
    oid = object_of(A)
    table.hold(oid)
    table.drop(oid)
    assert table.take() == [] and table.is_known(oid)
    table.drop(oid)
    assert table.take() == [("free", oid)] and not table.is_known(oid)


def test_an_item_without_a_makers_hold_is_freed_by_its_only_drop() -> None:
    table = References(A)
    oid = object_of(A)
    table.hold_new(oid)
    table.drop(oid)
    assert table.take() == [("free", oid)]


def test_dropping_a_borrowed_object_that_is_unknown_does_nothing() -> None:
    table = References(A)
    table.drop(object_of(B))
    assert table.take() == []


# ---------------------------------------------------------------------- arguments
def test_an_argument_that_is_not_kept_leaves_no_trace() -> None:
    wire, oid = Wire(A, B), object_of(A)
    wire[A].hold(oid)  # the task in flight
    wire[B].hold(oid)
    wire[B].drop(oid)
    assert wire[B].still_held(A, [oid]) == []
    wire[A].drop(oid)
    wire[A].drop(oid)
    wire.settle()
    assert wire.kinds(A) == ["free"] and wire.kinds(B) == ["gone"]


def test_an_argument_that_a_worker_keeps_is_freed_when_the_worker_lets_it_go() -> None:
    wire, oid = Wire(A, B), object_of(A)
    wire[A].hold(oid)
    wire[B].hold(oid)
    held = wire[B].still_held(A, [oid])
    assert held == [oid]
    wire[A].reply_held(B, held)
    wire[A].drop(oid)  # the task
    wire[A].drop(oid)  # the maker
    wire.settle()
    assert wire.kinds(A) == [] and wire[A].has_dependants()
    wire[B].drop(oid)
    wire.settle()
    assert wire.kinds(A) == ["free"] and not wire[A].has_dependants()


def test_a_release_that_overtakes_the_reply_that_counts_it_is_not_lost() -> None:
    wire, oid = Wire(A, B), object_of(A)
    wire[A].hold(oid)
    wire[B].hold(oid)
    held = wire[B].still_held(A, [oid])
    wire[B].drop(oid)
    wire.settle()  # "unborrow" arrives first
    wire[A].reply_held(B, held)
    wire[A].drop(oid)
    wire[A].drop(oid)
    wire.settle()
    assert wire.kinds(A) == ["free"]


# ---------------------------------------------------------------------- a third process
def test_a_ref_passed_on_by_a_borrower_is_registered_before_the_giver_lets_go() -> None:
    wire, oid = Wire(A, B, C), object_of(A)
    wire[A].give(B, [oid])
    wire[B].accept(A, [oid])
    wire[B].give(C, [oid])
    wire[B].drop(oid)  # B's own use is over; it still holds it for C
    wire[A].drop(oid)  # so is A's
    assert "free" not in [each[0] for each in wire[A].take()]
    wire[C].accept(B, [oid])
    wire.settle()
    assert wire.kinds(A) == [] and wire.kinds(B) == ["gone"]
    wire[C].drop(oid)
    wire.settle()
    assert wire.kinds(A) == ["free"]


def test_a_ref_that_comes_home_is_released_at_once_by_its_giver() -> None:
    wire, oid = Wire(A, B), object_of(A)
    wire[A].give(B, [oid])
    wire[B].accept(A, [oid])
    wire[B].give(A, [oid])
    wire[A].accept(B, [oid])
    wire[B].drop(oid)
    wire.settle()
    wire[A].drop(oid)
    wire[A].drop(oid)
    wire.settle()
    assert wire.kinds(A) == ["free"]


def test_a_ref_to_what_its_owner_has_freed_is_told_as_lost() -> None:
    wire, oid = Wire(A, B, C), object_of(A)
    wire.freed.add(oid)
    wire[C].accept(B, [oid])
    wire.settle()
    assert wire.kinds(C) == ["lost"]


# ---------------------------------------------------------------------- deaths
def test_the_death_of_a_borrower_frees_what_it_alone_held() -> None:
    wire, oid = Wire(A, B), object_of(A)
    wire[A].give(B, [oid])
    wire[A].drop(oid)
    wire.settle()
    assert wire.kinds(A) == []
    wire[A].process_died(B)
    wire.settle()
    assert wire.kinds(A) == ["free"]


def test_the_death_of_a_receiver_ends_the_hold_that_was_kept_for_it() -> None:
    wire, oid = Wire(A, B), object_of(A)
    wire[A].give(B, [oid])
    wire[B].accept(A, [oid])
    wire[B].give(C, [oid])
    wire[B].drop(oid)
    wire[B].process_died(C)
    wire[A].drop(oid)
    wire.settle()
    assert wire.kinds(B) == ["gone"] and wire.kinds(A) == ["free"]


def test_the_death_of_the_owner_is_the_answer_to_a_registration() -> None:
    table = References(C)
    oid = object_of(A)
    table.accept(B, [oid])
    assert table.take() == [("send", A, ("borrow", oid))]
    table.process_died(A)
    assert table.take() == [("lost", oid), ("send", B, ("unhold", oid))]


def test_messages_of_a_dead_process_are_ignored() -> None:
    table = References(A)
    oid = object_of(A)
    table.process_died(B)
    for message in (("borrow", oid), ("unborrow", oid, 1), ("unhold", oid)):
        table.on_message(B, message)
    table.give(B, [oid])
    assert table.take() == [] and not table.has_dependants()


def test_the_memory_of_deaths_is_bounded() -> None:
    table = References(A)
    for number in range(DEAD_MAX + 10):
        table.process_died(number.to_bytes(8, "big"))
    assert len(table._dead) == DEAD_MAX
