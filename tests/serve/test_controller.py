"""What a controller keeps for its next life."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

import sundog
from sundog.serve import controller
from sundog.serve.controller import ControllerCore
from sundog.serve.specs import Kept, ServeOptions


def test_a_life_that_ends_before_it_has_the_port_does_not_forget_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = SimpleNamespace(get_node_id=lambda: "ab", get_worker_id=lambda: "w", get_actor_id=lambda: "a")
    monkeypatch.setattr(sundog, "get_runtime_context", lambda: context)
    monkeypatch.setattr(
        controller, "configure", lambda *_: ""
    )  # the logger of the tests' process stays as it is

    async def scene() -> Kept | None:
        first = ControllerCore(str(tmp_path), ServeOptions())
        first.store.save(Kept(first.options, 4711, {}, [], []))
        second = ControllerCore(str(tmp_path), ServeOptions())

        async def dies(_port: int) -> None:
            raise SystemExit

        monkeypatch.setattr(second.proxies, "begin", dies)
        with pytest.raises(SystemExit):
            await second.begin()
        second.is_over = True
        first.board.close()
        second.board.close()
        return second.store.load()

    kept = asyncio.run(scene())
    assert kept is not None and kept.port == 4711
