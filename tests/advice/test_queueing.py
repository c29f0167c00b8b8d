"""Turns: which process gets resources next."""

from sundog.advice.queueing import TaskTurns

A, B, C = b"a", b"b", b"c"


def waiting(*tasks: tuple[bytes, int]) -> TaskTurns:
    turns = TaskTurns()
    for owner, key in tasks:
        turns.add(owner, key, 0.0)
    return turns


def test_processes_take_turns_and_each_keeps_the_order_of_its_own_tasks() -> None:
    turns = waiting((A, 1), (A, 2), (A, 3), (B, 4), (C, 5), (B, 6))
    assert [turns.take(0.0, b"") for _ in range(6)] == [1, 4, 5, 2, 6, 3]
    assert not turns


def test_a_process_keeps_what_its_task_leaves_for_its_own_next_one() -> None:
    turns = waiting((B, 1), (A, 2), (A, 3))
    assert [turns.take(0.1, A), turns.take(0.1, A), turns.take(0.1, A)] == [2, 3, 1]


def test_a_process_that_has_nothing_and_has_waited_for_long_comes_first() -> None:
    turns = waiting((B, 1), (C, 2), (A, 3), (A, 4))
    assert [turns.take(0.5, A), turns.take(0.5, A), turns.take(0.5, A)] == [1, 2, 3]


def test_a_process_that_has_something_does_not_come_before_the_one_that_leaves() -> None:
    turns = waiting((B, 1), (B, 2), (A, 3))
    assert turns.take(0.0, b"") == 1  # B has one now
    assert turns.take(0.5, A) == 3
    turns.add(A, 4, 0.5)
    turns.returned(B)
    assert turns.take(0.5, A) == 2
