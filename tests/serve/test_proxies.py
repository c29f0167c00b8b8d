"""Proxies as the controller keeps them: the port, a new one for each that dies, and what is told of them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, cast

import pytest

from sundog.exceptions import ActorDiedError
from sundog.serve import proxies as module
from sundog.serve.config import HTTPOptions, ProxyLocation
from sundog.serve.proxies import Proxies
from sundog.serve.rows import Route
from sundog.serve.schema import ProxyStatus
from sundog.serve.specs import ServeOptions
from tests.serve.fakes import FakeActor, FakeMethod, FakeSession

FACTS = {"actor_id": "a1", "log_file_path": "/serve/proxy.log"}


class FakeStore:
    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)


class FakeReplicas:
    """Runs what the controller runs in the background."""

    def __init__(self) -> None:
        self.tasks: list[asyncio.Task[None]] = []

    def run(self, coro: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coro)
        self.tasks.append(task)
        return task


class FakeCore:
    node, log_folder, dirty = "n1", "logs", False

    def __init__(self, folder: Path, location: ProxyLocation, http: HTTPOptions) -> None:
        self.store, self.replicas = FakeStore(folder), FakeReplicas()
        self.options = ServeOptions(http, location)

    def routes(self) -> list[Route]:
        return [Route("/", "shop", "Model")]


def made(folder: Path, location: ProxyLocation = ProxyLocation.HeadOnly, **http: Any) -> Proxies:
    core: Any = FakeCore(folder, location, HTTPOptions(**{"port": 0, **http}))
    return Proxies(core)


@pytest.fixture(autouse=True)
def session(monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    monkeypatch.setattr(module, "_AGAIN_S", 0.0)
    found = FakeSession(monkeypatch)
    found.made.actor = FakeActor(ready=FACTS, drain=None)
    return found


def test_the_port_is_open_before_there_is_a_proxy_and_closed_at_the_end(tmp_path: Path) -> None:
    async def scene() -> int:
        proxies = made(tmp_path)
        await proxies.bind(0)
        assert proxies.core.dirty  # the next life of the controller must know the port
        socket.create_connection(("127.0.0.1", proxies.port)).close()
        await proxies.end()
        return proxies.port

    port = asyncio.run(scene())
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_a_port_that_is_taken_is_told_with_what_to_do(tmp_path: Path) -> None:
    async def scene(port: int) -> None:
        await made(tmp_path, port=port).bind(0)

    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(RuntimeError, match=f"cannot listen on 127.0.0.1:{port}: Address already in use"):
            asyncio.run(scene(port))
        with pytest.raises(RuntimeError, match=r'serve\.start\(http_options=\{"port": …\}\)'):
            asyncio.run(scene(port))


def test_a_new_controller_takes_the_port_from_a_process_that_holds_it(tmp_path: Path) -> None:
    async def scene() -> None:
        first, second = made(tmp_path), made(tmp_path)
        await first.bind(0)
        answering = asyncio.get_running_loop().run_in_executor
        # The holder answers in its loop, and the new controller asks without one: they are two processes.
        taken = await answering(None, module.take, first._folder)
        assert taken is not None and taken.getsockname()[1] == first.port
        monkeypatch.setattr(module, "take", lambda _folder: taken)
        await second.bind(first.port)
        assert second.port == first.port
        await first.end()
        socket.create_connection(("127.0.0.1", second.port)).close()
        await second.end()

    with pytest.MonkeyPatch.context() as monkeypatch:
        asyncio.run(scene())


def test_a_new_controller_waits_for_a_port_that_is_about_to_be_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[int] = []
    real = module.bound_socket

    def bound_socket(host: str, port: int) -> socket.socket:
        tries.append(port)
        if len(tries) < 3:
            raise OSError(98, "Address already in use")
        return real(host, 0)

    monkeypatch.setattr(module, "bound_socket", bound_socket)

    async def scene() -> None:
        proxies = made(tmp_path)
        await proxies.bind(4711)
        await proxies.end()

    asyncio.run(scene())
    assert tries == [4711, 4711, 4711]


@pytest.mark.parametrize(
    ("location", "host"), [(ProxyLocation.Disabled, "127.0.0.1"), (ProxyLocation.HeadOnly, None)]
)
def test_without_http_there_is_no_port_and_no_proxy(
    tmp_path: Path, session: FakeSession, location: ProxyLocation, host: str | None
) -> None:
    async def scene() -> None:
        proxies = made(tmp_path, location, host=host)
        await proxies.bind(0)
        await proxies.begin()
        assert proxies.port == 0 and proxies.statuses() == {} and proxies.details() == {}
        await proxies.end()

    asyncio.run(scene())
    assert session.made.given == []


def test_begin_returns_when_every_proxy_accepts_connections(tmp_path: Path, session: FakeSession) -> None:
    session.made.actor = FakeActor(drain=None)
    ready = session.made.actor.ready

    async def scene() -> None:
        proxies = made(tmp_path, num_proxies=2)
        begun = asyncio.ensure_future(proxies.begin())
        while len(ready.refs) < 2:
            await asyncio.sleep(0)
        assert proxies.statuses() == {"n1": ProxyStatus.STARTING}
        ready.refs[0].result.set_result(FACTS)
        for _ in range(10):
            await asyncio.sleep(0)
        assert not begun.done() and proxies.statuses() == {"n1": ProxyStatus.STARTING}
        ready.refs[1].result.set_result(FACTS)
        await begun
        assert proxies.statuses() == {"n1": ProxyStatus.HEALTHY}
        await end(proxies)

    asyncio.run(scene())
    assert [each["name"] for each in session.made.chosen] == ["SERVE_PROXY_ACTOR-0", "SERVE_PROXY_ACTOR-1"]
    assert ready.calls[0] == (([Route("/", "shop", "Model")],), {})


def test_the_details_of_a_node_have_the_facts_of_its_proxy(tmp_path: Path) -> None:
    async def scene() -> None:
        proxies = made(tmp_path, num_proxies=1)
        await proxies.begin()
        found = cast(Any, proxies.details())["n1"]
        assert found["status"] == "HEALTHY" and found["actor_name"] == "SERVE_PROXY_ACTOR-n1"
        assert found["actor_id"] == "a1" and found["log_file_path"] == "/serve/proxy.log"
        await end(proxies)

    asyncio.run(scene())


def test_a_proxy_that_dies_is_made_again(tmp_path: Path, session: FakeSession) -> None:
    async def scene() -> None:
        proxies = made(tmp_path, num_proxies=1)
        await proxies.begin()
        parked = session.made.actor.parked
        parked.refs[0].result.set_exception(ActorDiedError("killed"))
        while len(parked.refs) < 2:
            await asyncio.sleep(0)
        assert proxies.statuses() == {"n1": ProxyStatus.HEALTHY} and len(session.made.given) == 2
        await end(proxies)

    asyncio.run(scene())


def test_a_proxy_of_an_earlier_controller_is_kept_and_only_its_successor_is_new(
    tmp_path: Path, session: FakeSession
) -> None:
    old = session.named["SERVE_PROXY_ACTOR-0"] = FakeActor(ready=FACTS, drain=None)

    async def scene() -> None:
        proxies = made(tmp_path, num_proxies=1)
        await proxies.begin()
        assert session.made.given == []
        old.parked.refs[0].result.set_exception(ActorDiedError("killed"))
        while not session.made.actor.parked.refs:
            await asyncio.sleep(0)
        assert len(session.made.given) == 1
        await end(proxies)

    asyncio.run(scene())


def test_an_error_that_is_no_death_is_printed_and_the_proxy_is_tried_again(
    tmp_path: Path, session: FakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    session.made.actor = FakeActor(ready=[RuntimeError("no certificate"), FACTS], drain=None)

    async def scene() -> None:
        proxies = made(tmp_path, num_proxies=1)
        await proxies.begin()
        await end(proxies)

    asyncio.run(scene())
    assert "RuntimeError: no certificate" in capsys.readouterr().err


def test_at_the_end_each_proxy_drains_and_is_killed_also_when_it_is_dead_already(
    tmp_path: Path, session: FakeSession
) -> None:
    async def scene() -> None:
        proxies = made(tmp_path, num_proxies=1)
        await proxies.begin()
        session.made.actor.drain = FakeMethod(ActorDiedError("killed"))
        await end(proxies)

    asyncio.run(scene())
    assert session.killed == [session.made.actor]


async def end(proxies: Proxies) -> None:
    await proxies.end()
    for task in cast(FakeReplicas, proxies.core.replicas).tasks:
        task.cancel()
