"""When a controller answers, and what it keeps for its next life."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

import sundog
from sundog.serve import controller
from sundog.serve.applications import Applications
from sundog.serve.config import HTTPOptions, ProxyLocation
from sundog.serve.controller import ControllerActor, ControllerCore
from sundog.serve.proxies import Proxies
from sundog.serve.specs import AppSpec, Kept, ServeOptions


class _Context:
    """Where the controller runs."""

    def get_node_id(self) -> str:
        return "ab"

    def get_worker_id(self) -> str:
        return "w"

    def get_actor_id(self) -> str:
        return "a"


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller outside of any session, which leaves the logger of the tests' process as it is."""
    monkeypatch.setattr(sundog, "get_runtime_context", _Context)
    monkeypatch.setattr(controller, "configure", lambda *_: "")


@pytest.mark.usefixtures("alone")
def test_an_application_is_deployed_while_proxies_are_on_their_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        actor = ControllerActor(str(tmp_path), ServeOptions(HTTPOptions(port=0)))
        up, deployed = asyncio.Event(), []

        async def begin(_proxies: Proxies) -> None:
            await up.wait()

        monkeypatch.setattr(Proxies, "begin", begin)
        monkeypatch.setattr(Applications, "deploy", lambda _apps, specs: deployed.extend(specs))
        host, port = await actor.ready()
        assert host == "127.0.0.1" and port > 0
        socket.create_connection((host, port)).close()  # waits in the kernel for a proxy
        await actor.deploy(["an application"])  # type: ignore[list-item]
        assert deployed == ["an application"]
        status = asyncio.ensure_future(actor.status())
        await asyncio.sleep(0)
        assert not status.done()
        up.set()
        await status
        await _end(actor)

    asyncio.run(scene())


@pytest.mark.usefixtures("alone")
def test_every_caller_hears_that_the_port_cannot_be_had(tmp_path: Path) -> None:
    async def scene(taken: int) -> None:
        actor = ControllerActor(str(tmp_path), ServeOptions(HTTPOptions(port=taken)))
        for call in (actor.ready, actor.status):
            with pytest.raises(RuntimeError, match=f"cannot listen on 127.0.0.1:{taken}"):
                await call()
        await _end(actor)

    with socket.create_server(("127.0.0.1", 0)) as other:
        asyncio.run(scene(other.getsockname()[1]))


@pytest.mark.usefixtures("alone")
def test_what_was_deployed_is_saved_before_the_caller_hears_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> list[str]:
        actor = ControllerActor(str(tmp_path), ServeOptions(location=ProxyLocation.Disabled))
        await actor.status()
        core = actor._core
        assert core is not None
        monkeypatch.setattr(core, "_step", lambda: False)  # a kill may come before the next step
        await actor.deploy([AppSpec("shop", "/", "Model", [])])
        kept = core.store.load()
        await _end(actor)
        assert kept is not None
        return [each.spec.name for each in kept.apps]

    assert asyncio.run(scene()) == ["shop"]


async def _end(actor: ControllerActor) -> None:
    core = actor._core
    assert core is not None
    core.is_over = True
    await core.proxies.end()
    core.replicas.end_all()
    core.board.close()


@pytest.mark.usefixtures("alone")
def test_a_life_that_ends_before_it_has_the_port_does_not_forget_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> Kept | None:
        first = ControllerCore(str(tmp_path), ServeOptions())
        first.store.save(Kept(first.options, 4711, {}, [], []))
        second = ControllerCore(str(tmp_path), ServeOptions())

        async def dies(_port: int) -> None:
            raise SystemExit

        monkeypatch.setattr(second.proxies, "bind", dies)
        with pytest.raises(SystemExit):
            await second.begin()
        second.is_over = True
        first.board.close()
        second.board.close()
        return second.store.load()

    kept = asyncio.run(scene())
    assert kept is not None and kept.port == 4711
