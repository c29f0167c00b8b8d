"""Looks at processes: who is asked, who answered, who was silent."""

from __future__ import annotations

from sundog.wire.control import Look, Looked, Rpc
from sundog.wire.looks import PULSE, STACKS
from sundog.wire.zygote import Exited
from tests.node.whole import DRIVER, Peer, WholeNode


def _look(driver: Peer, question: str, only: tuple[str, ...] = ()) -> None:
    driver.tell(Rpc(50, "look_at", (question, (), only, 2.0)))


def test_every_process_is_asked_and_the_answer_comes_with_the_last_of_theirs(world: WholeNode) -> None:
    driver = world.driver()
    workers = [peer for _, peer in world.forks()]
    _look(driver, STACKS)
    [(_, token, question, _)] = driver.heard(Look)
    assert question == STACKS
    for number, peer in enumerate(workers):
        assert [message[1] for message in peer.heard(Look)] == [token]
        peer.tell(Looked(token, f"row {number}"))
    driver.tell(Looked(token, "the driver's"))
    told, silent = driver.answer(50)
    assert sorted(row for _, row in told) == sorted(
        ["the driver's", *[f"row {n}" for n in range(len(workers))]]
    )
    assert silent == []
    [who] = [who for who, row in told if row == "the driver's"]
    assert (who.process_id, who.kind, who.entrypoint) == (DRIVER.hex(), "driver", "train.py")


def test_those_that_do_not_answer_in_time_are_named(world: WholeNode) -> None:
    driver = world.driver()
    world.forks()
    _look(driver, STACKS, only=(DRIVER.hex(),))
    assert driver.answer(50) is None
    world.loop.ring()
    told, silent = driver.answer(50)
    assert told == [] and [who.process_id for who in silent] == [DRIVER.hex()]


def test_a_process_that_dies_meanwhile_is_not_waited_for(world: WholeNode) -> None:
    driver = world.driver()
    (worker, _), *_ = world.forks()
    _look(driver, STACKS, only=(worker.hex(),))
    world.zygote.tell(Exited(world.node.processes[worker].pid, 9, 0))
    assert driver.answer(50) == ([], [])


def test_a_starting_process_is_not_asked_for_its_pulse_and_nobody_at_all_is_an_answer(
    world: WholeNode,
) -> None:
    driver = world.driver()
    (worker, _), *_ = world.forks()
    world.node.processes[worker].state = "starting"
    _look(driver, PULSE, only=(worker.hex(),))
    assert driver.answer(50) == ([], [])
