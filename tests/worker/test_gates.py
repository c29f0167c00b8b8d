"""Which generators of a worker may make another item: bounds of one stream, and of all streams of an actor."""

from __future__ import annotations

from sundog.worker.gates import Gates

OWNER, OTHER = b"owner", b"other"


def gates_of(actor_limit: int = 0) -> tuple[Gates, list[str]]:
    gates = Gates()
    gates.actor_limit = actor_limit
    return gates, []


def test_a_stream_without_any_bound_has_no_gate() -> None:
    gates, woken = gates_of()
    assert gates.open(b"a", OWNER, 0, lambda: woken.append("a")) is None


def test_a_stream_waits_at_its_own_bound_until_an_item_is_read() -> None:
    gates, woken = gates_of()
    gate = gates.open(b"a", OWNER, 2, lambda: woken.append("a"))
    assert gate is not None
    assert [gates.admit(gate, 1) for _ in range(3)] == [True, True, False]
    gates.consumed(b"a", 1)
    assert woken == ["a"] and gates.admit(gate, 1)


def test_an_actors_bound_counts_the_items_of_all_streams_also_of_those_that_have_ended() -> None:
    gates, woken = gates_of(actor_limit=3)
    first = gates.open(b"a", OWNER, 0, lambda: woken.append("a"))
    second = gates.open(b"b", OWNER, 1, lambda: woken.append("b"))
    assert first is not None and second is not None
    assert gates.admit(first, 2)
    gates.close(b"a")
    assert gates.admit(second, 1)
    third = gates.open(b"c", OWNER, 0, lambda: woken.append("c"))
    assert third is not None and not gates.admit(third, 1)
    gates.consumed(b"a", 1)
    assert woken == ["a", "b", "c"] and gates.admit(third, 1) and not gates.admit(third, 1)


def test_items_that_were_not_made_after_all_are_given_back() -> None:
    gates, woken = gates_of(actor_limit=1)
    gate = gates.open(b"a", OWNER, 0, lambda: woken.append("a"))
    assert gate is not None and gates.admit(gate, 1)
    gates.withdraw(gate, 1)
    assert woken == ["a"] and gates.admit(gate, 1)


def test_the_items_of_a_dead_owner_count_no_more_and_its_streams_end() -> None:
    gates, woken = gates_of(actor_limit=2)
    of_dead = gates.open(b"a", OWNER, 0, lambda: woken.append("a"))
    of_other = gates.open(b"b", OTHER, 0, lambda: woken.append("b"))
    assert of_dead is not None and of_other is not None and gates.admit(of_dead, 2)
    assert not gates.admit(of_other, 1)
    gates.owner_died(OWNER)
    assert of_dead.abandoned and not of_other.abandoned and gates.admit(of_other, 1)
