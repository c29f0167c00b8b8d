"""Profiles that the node asks for are taken elsewhere, not under the owner's lock."""

from __future__ import annotations

from sundog.owner.profiles import ProcessProfiles
from sundog.profiling import recorder
from sundog.wire.control import StartProfile, StopProfile
from sundog.wire.profiles import ProfileSpec
from tests.owner.fakes import make_owner


def test_messages_become_calls_of_the_recorder() -> None:
    owner = make_owner()
    spec = ProfileSpec("p", "cpu", 100.0, 60.0, "/p")
    profiles = ProcessProfiles(owner, "driver")
    profiles.start(StartProfile(spec))
    profiles.stop(StopProfile("p"))
    assert owner.deliveries.brought == [(recorder.start, spec, "driver", "/nowhere"), (recorder.stop, "p")]
