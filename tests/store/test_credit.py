"""Credit of the store: what is set aside, spent and given up adds up, whatever the node answers."""

from __future__ import annotations

import threading

from sundog.store.credit import Credit


def limited(answers: list[bool], left: int = 0) -> tuple[Credit, list[tuple[int, int]]]:
    """A credit whose node answers in turn, and what the node was asked for."""
    credit, asked = Credit(), []

    def ask(more: int, aside: int) -> bool:
        asked.append((more, aside))
        granted = answers.pop(0)
        if granted:
            credit.granted(more - aside, aside)
        return granted

    credit.limited(ask)
    credit.left = left
    return credit, asked


def test_without_a_node_credit_never_ends() -> None:
    credit = Credit()
    assert credit.reserve(1 << 50)
    assert credit.reserved == 1 << 50


def test_what_fits_is_set_aside_without_asking() -> None:
    credit, asked = limited([], left=100)
    assert credit.reserve(60)
    assert (credit.left, credit.reserved, asked) == (40, 60, [])


def test_only_what_is_missing_is_asked_for() -> None:
    credit, asked = limited([True], left=30)
    assert credit.reserve(100)
    assert asked == [(70, 70)]
    assert (credit.left, credit.reserved) == (0, 100)


def test_a_debt_is_asked_for_too_and_paid() -> None:
    credit, asked = limited([True], left=10)
    credit.grown(30)
    assert credit.left == -20
    assert credit.reserve(50)
    assert asked == [(70, 50)]
    assert (credit.left, credit.reserved) == (20, 50)


def test_a_refusal_gives_back_what_was_set_aside() -> None:
    credit, _ = limited([False], left=30)
    assert not credit.reserve(100)
    assert (credit.left, credit.reserved) == (30, 0)


def test_an_error_while_asking_gives_back_what_was_set_aside() -> None:
    credit = Credit()

    def ask(_more: int, _aside: int) -> bool:
        raise KeyboardInterrupt

    credit.limited(ask)
    credit.left = 30
    try:
        credit.reserve(100)
    except KeyboardInterrupt:
        pass
    assert (credit.left, credit.reserved) == (30, 0)


def test_written_bytes_are_spent_and_unwritten_ones_come_back() -> None:
    credit, _ = limited([], left=100)
    credit.reserve(60)
    credit.written(40)
    credit.unwritten(20)
    assert (credit.left, credit.reserved) == (60, 0)


def test_surrender_gives_up_what_is_left_and_tells_what_is_being_written() -> None:
    credit, _ = limited([], left=100)
    credit.reserve(25)
    assert credit.surrender() == 25
    assert credit.left == 0


def test_surrender_without_a_node_gives_nothing_up() -> None:
    credit = Credit()
    credit.surrender()
    assert credit.reserve(1 << 40)


def test_threads_never_spend_the_same_bytes_twice() -> None:
    credit, _ = limited([False] * 1000, left=1000)
    taken: list[int] = []

    def take() -> None:
        for _ in range(100):
            if credit.reserve(7):
                taken.append(7)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(taken) + credit.left == 1000 and credit.reserved == sum(taken)
