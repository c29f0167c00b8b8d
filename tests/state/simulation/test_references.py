"""Thousands of small programs, each from a seed, that share refs: nothing is freed early, and nothing stays.

To run one seed again: ``pytest tests/state/simulation --simulation-seed=1234``.
"""

from __future__ import annotations

import pytest

from sundog.state.references import References
from tests.state.simulation.sharing import Sharing

SEEDS = 8_100
BLOCK = 900


def run(seed: int) -> None:
    world = Sharing(seed)
    try:
        for _ in range(world.rng.randrange(40, 160)):
            world.step()
        world.finish()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from error


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_refs_are_freed_when_and_only_when_nobody_holds_them(first: int, simulation_seed: int | None) -> None:
    for seed in range(first, first + BLOCK) if simulation_seed is None else [simulation_seed]:
        run(seed)


A, B, C = b"process-a"[:8], b"b-process"[:8], b"c-process"[:8]
X = A + bytes(12)


def test_a_registration_on_its_way_does_not_release_the_pin_of_another_task() -> None:
    """a owns x and calls b with it, b calls c, c calls b back: b and c cover each other, a's pin both."""
    a, b, c = References(A), References(B), References(C)
    a.hold(X)  # pinned for the call to b
    b.hold(X)  # the argument
    b.hold(X)  # pinned for the call to c
    c.hold(X)
    c.hold(X)  # pinned for the call back to b
    b.hold(X)
    b.drop(X)
    assert b.still_held(C, [X]) == [X]  # the call back ends at b, which has x from a as well
    assert b.take() == [("send", A, ("borrow", X))]
    assert b.still_held(A, [X]) == [X], "b's registration has not arrived: a must be told in the reply"
    a.reply_held(B, [X])
    a.drop(X)  # the pin
    a.drop(X)  # the variable
    assert a.take() == [], "x was freed while b held it"


def test_a_ref_whose_owner_is_known_to_be_dead_is_not_registered_in_vain() -> None:
    b = References(B)
    b.process_died(A)
    b.accept(C, [X])
    assert b.take() == [("send", C, ("unhold", X))]
    b.drop(X)
    assert not b.borrowed


def test_a_release_that_overtakes_the_reply_is_counted_for_an_object_that_only_its_maker_held() -> None:
    owner = References(b"o" * 8)
    oid = b"o" * 20  # an argument too large for its packet: the task has its maker's hold
    owner.on_message(b"w" * 8, ("unborrow", oid, 1), known=True)
    owner.reply_held(b"w" * 8, [oid])
    assert owner.take() == []
    owner.drop(oid)
    assert owner.take() == [("free", oid)]
    assert not owner.owned


def test_a_release_of_an_object_that_is_gone_is_not_counted() -> None:
    owner = References(b"o" * 8)
    owner.on_message(b"w" * 8, ("unborrow", b"o" * 20, 1), known=False)
    assert not owner.owned
