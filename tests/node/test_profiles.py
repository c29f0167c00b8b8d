"""Who is told to begin and end a profile."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from sundog.node.profiles import SessionProfiles
from sundog.wire.profiles import ProfileSpec

SPEC = ProfileSpec("p", "cpu", 100.0, 60.0, "/p")


def process(pid: int) -> Any:
    sent: list[Any] = []
    return SimpleNamespace(pid=pid, line=SimpleNamespace(send=sent.append), sent=sent)


def test_a_profile_of_the_session_is_told_to_workers_that_start_meanwhile() -> None:
    first, starting, late = process(1), process(0), process(3)
    node: Any = SimpleNamespace(processes={b"1": first, b"2": starting})
    profiles = SessionProfiles(node)
    assert profiles.begin(SPEC, []) == [1] and first.sent[0].spec == SPEC and starting.sent == []
    node.processes[b"3"] = late
    profiles.forked(late)
    assert late.sent[0].spec == SPEC
    assert profiles.end("p") == [1, 3] and late.sent[1].profile_id == "p"
    assert profiles.end("p") == []


def test_a_profile_of_some_processes_leaves_the_others_alone() -> None:
    first, second = process(1), process(2)
    node: Any = SimpleNamespace(processes={b"1": first, b"2": second})
    profiles = SessionProfiles(node)
    assert profiles.begin(SPEC, [2, 9]) == [2]
    profiles.forked(process(3))
    assert profiles.end("p") == [2] and first.sent == []
