"""Placement groups on request: waited for, found by name, shown."""

from __future__ import annotations

from sundog.wire import requests as ask
from sundog.wire.control import PgRemove, Rpc
from tests.node.whole import NODE, Peer, WholeNode, make_group


def test_a_group_is_waited_for_until_it_is_placed_or_removed(driver: Peer) -> None:
    first, _ = make_group(driver, 2.0)
    second, placed = make_group(driver, 2.0)
    assert not placed and driver.ask(ask.PgWait(first, None)) is True
    assert driver.ask(ask.PgWait(second, 0)) is False
    driver.tell(Rpc(90, "pg_wait", (second, None)))
    assert driver.answer(90) is None  # later
    driver.tell(PgRemove(first))
    assert driver.answer(90) is True
    driver.tell(PgRemove(second))
    assert driver.ask(ask.PgWait(second, 10)) is False


def test_a_wait_whose_time_is_over_leaves_nothing_behind(world: WholeNode, driver: Peer) -> None:
    pg_id, _ = make_group(driver, 9.0)  # never fits
    for number in range(3):
        driver.tell(Rpc(200 + number, "pg_wait", (pg_id, 5.0)))
    world.loop.ring()
    assert [driver.answer(202)] == [False]
    assert world.node.requests.groups._waiters == {}  # a program may poll for ever


def test_groups_are_found_by_name_and_shown_in_a_table(driver: Peer) -> None:
    pg_id, _ = make_group(driver, 1.0, "trainers")
    assert driver.ask(ask.PgByName("trainers", "ns")) == pg_id and driver.ask(ask.PgByName("x", "ns")) is None
    row = driver.ask(ask.PgTable(pg_id))
    assert (row["state"], row["bundles"], row["bundles_to_node_id"]) == (
        "CREATED",
        {0: {"CPU": 1.0}},
        {0: NODE.hex()},
    )
    assert driver.ask(ask.PgTable(b"unknown")) == {} and list(driver.ask(ask.PgTable(None))) == [pg_id.hex()]
