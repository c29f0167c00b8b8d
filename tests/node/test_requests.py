"""Requests and their answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sundog.config import Config
from sundog.exceptions import RaySystemError
from sundog.state.lease_spec import LeaseSpec
from sundog.wire import requests as ask
from sundog.wire.control import (
    ActorInfeasible,
    ActorRegister,
    ActorStart,
    LeaseInfeasible,
    Rpc,
    WantLeases,
)
from tests.node.whole import Peer, WholeNode, make_group, whole_node


def test_resources_are_told_with_and_without_what_is_in_use(driver: Peer) -> None:
    assert driver.ask(ask.ClusterResources())["CPU"] == 2.0
    pg_id, placed = make_group(driver, 1.5)
    assert placed and driver.ask(ask.AvailableResources())["CPU"] == 0.5
    assert f"CPU_group_{pg_id.hex()}" in driver.ask(ask.ClusterResources())
    make_group(driver, 0.5)
    assert "CPU" not in driver.ask(ask.AvailableResources())  # what is used up is left out


def test_an_unknown_request_and_a_wrong_one_are_answered_with_an_error(driver: Peer) -> None:
    driver.tell(Rpc(77, "weather", ()))
    with pytest.raises(RaySystemError, match=r"The node does not know the request 'weather'"):
        driver.answer(77)
    driver.tell(Rpc(78, "status", (1, 2, 3)))
    with pytest.raises(ValueError, match=r"'status' has 3 fields"):
        driver.answer(78)
    with pytest.raises(ValueError, match=r"There is no list of 'weather'"):
        driver.ask(ask.ListRows("weather"))


def test_an_actor_is_found_by_its_name_or_the_names_are_listed(driver: Peer) -> None:
    with pytest.raises(ValueError, match=r"no live actor named 'tally' in namespace 'ns'. Names: \[\]"):
        driver.ask(ask.GetActor("tally", "ns"))
    actor_id = _registers(driver, "tally")
    assert driver.ask(ask.GetActor("tally", "ns")) == (actor_id, b"packed")
    assert driver.ask(ask.ListNamedActors(False)) == ["tally"]
    assert driver.ask(ask.ListNamedActors(True)) == [{"namespace": "ns", "name": "tally"}]
    with pytest.raises(ValueError, match=r"Names: \['tally'\]"):
        driver.ask(ask.GetActor("other", "ns"))


def _spec(cpus: float = 1.0, **more: Any) -> Any:
    return {
        "detached": False,
        "max_restarts": 0,
        "get_if_exists": False,
        "namespace": "ns",
        "name": "",
        "class_name": "Counter",
        "class_path": "Counter",
        "lease": LeaseSpec(resources=(("CPU", cpus),), env_key="01000000:", permanent=True),
        "setup": {},
        "blob": b"",
        "job_id": b"\1\0\0\0",
        "submit_s": 1.0,
        "hidden": False,
        "handle": b"packed",
        **more,
    }


def _registers(driver: Peer, name: str) -> bytes:
    actor_id = b"driver01" + b"a" * 8
    assert driver.ask(ask.RegisterNamed(actor_id, name, "ns", _spec(name=name))) == actor_id
    return actor_id


def test_an_actor_is_known_empty_or_unknown(driver: Peer) -> None:
    actor_id = _registers(driver, "tally")
    assert driver.ask(ask.ActorInfo(actor_id))["class_name"] == "Counter"
    assert driver.ask(ask.ActorInfo(b"driver01" + b"b" * 8)) == {}  # not registered yet; its creator is here
    assert driver.ask(ask.ActorInfo(b"nobody01" + b"b" * 8)) is None


def test_values_of_programs_are_kept(driver: Peer) -> None:
    assert driver.ask(ask.KeyValuePut(b"ns", b"k", b"v", True)) is False  # there was none before
    assert driver.ask(ask.KeyValueGet(b"ns", b"k")) == b"v" and driver.ask(ask.KeyValueKeys(b"ns", b"")) == [
        b"k"
    ]
    assert driver.ask(ask.KeyValueDel(b"ns", b"k", False)) == 1


def test_rows_are_gathered_from_every_process_and_the_silent_are_named(
    world: WholeNode, driver: Peer
) -> None:
    (_, worker), *_ = world.forks()
    driver.tell(Rpc(300, "list_rows", ("tasks", 1.0)))
    [(_, token, what)] = [message for message in worker.heard() if message[0] == "describe"]
    assert what == "tasks"
    from sundog.wire.control import Described

    worker.tell(Described(token, [{"task": "ab"}]))
    driver.tell(Described(token, []))
    assert driver.answer(300) is None
    world.loop.ring()
    rows, silent = driver.answer(300)
    assert rows == [{"task": "ab", "job": "01000000"}] and len(silent) == 1


def test_a_request_that_fits_nowhere_is_told_to_its_owner(world: WholeNode, driver: Peer) -> None:
    driver.tell(WantLeases(7, LeaseSpec(resources=(("GPU", 1.0),), env_key="01000000:"), 1, ("f",), 0))
    [(_, key, resources, reason)] = driver.heard(LeaseInfeasible)
    assert (key, resources) == (7, {"GPU": 1.0}) and "GPU" in reason
    driver.tell(ActorRegister(b"driver01" + b"a" * 8, _spec(99.0)))
    driver.tell(ActorStart(b"driver01" + b"a" * 8, None, None))
    [(_, name, resources, _)] = driver.heard(ActorInfeasible)
    assert (name, resources) == ("Counter", {"CPU": 99.0})


def test_only_a_worker_is_ended_on_request(world: WholeNode, driver: Peer) -> None:
    (worker, _), *_ = world.forks()
    assert driver.ask(ask.EndWorker(b"driver01".hex(), "x")) is False
    assert driver.ask(ask.EndWorker(worker.hex(), "a user ended it")) is True
    assert (world.node.processes[worker].kill_reason, world.node.processes[worker].intended) == (
        "a user ended it",
        False,
    )


def test_a_wrong_setting_for_delays_is_logged_and_ignored(tmp_path: Path) -> None:
    with whole_node(tmp_path, Config(testing_asio_delay_us="nonsense")) as world:
        assert world.driver().ask(ask.ClusterResources())["CPU"] == 2.0
        assert world.node.requests._delays is None
