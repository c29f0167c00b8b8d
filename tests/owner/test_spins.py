"""Whether a wait spins before it sleeps. Pure."""

from __future__ import annotations

from sundog.owner.spins import Spins


def spun(spins: Spins, waits: int, found: bool) -> int:
    """How many of so many waits spin, each with the same outcome."""
    count = 0
    for _ in range(waits):
        if spins.next_s():
            count += 1
            spins.ended(found)
    return count


def test_every_wait_spins_while_spins_find_what_they_wait_for() -> None:
    assert spun(Spins(1e-4), 100, True) == 100


def test_few_waits_spin_once_spins_are_in_vain() -> None:
    spins = Spins(1e-4)
    assert spun(spins, 300, False) <= 10
    assert spun(spins, 1280, False) == 10


def test_a_slow_answer_among_quick_ones_changes_nothing() -> None:
    spins = Spins(1e-4)
    for _ in range(50):
        assert spun(spins, 1, False) == 1
        assert spun(spins, 1, True) == 1


def test_a_few_spins_that_pay_bring_all_of_them_back() -> None:
    spins = Spins(1e-4)
    spun(spins, 200, False)
    for _ in range(3):
        while not spins.next_s():
            pass
        spins.ended(True)
    assert spun(spins, 20, True) == 20


def test_one_spin_that_pays_by_chance_does_not_bring_all_of_them_back() -> None:
    spins = Spins(1e-4)
    spun(spins, 200, False)
    while not spins.next_s():
        pass
    spins.ended(True)
    assert spins.next_s() == 0.0
    assert spun(spins, 100, False) <= 10


def test_without_a_time_to_spin_no_wait_does() -> None:
    spins = Spins(0.0)
    assert spun(spins, 10, True) == 0
