"""Profiles that the node asks for are taken elsewhere, not under the owner's lock."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from sundog.owner.profiles import Profiles
from sundog.profiling import recorder
from sundog.wire.control import StartProfile, StopProfile
from sundog.wire.profiles import ProfileSpec


def test_messages_become_calls_of_the_recorder() -> None:
    calls: list[tuple[Any, ...]] = []
    owner: Any = SimpleNamespace(
        deliveries=SimpleNamespace(bring=lambda *call: calls.append(call)),
        control=SimpleNamespace(session={"path": "/s"}),
    )
    spec = ProfileSpec("p", "cpu", 100.0, 60.0, "/p")
    profiles = Profiles(owner, "driver")
    profiles.start(StartProfile(spec))
    profiles.stop(StopProfile("p"))
    assert calls == [(recorder.start, spec, "driver", "/s"), (recorder.stop, "p")]
