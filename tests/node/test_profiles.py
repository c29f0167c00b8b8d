"""Who is told to begin and end a profile."""

from __future__ import annotations

from typing import Any

from sundog.node.profiles import SessionProfiles
from sundog.wire.profiles import ProfileSpec
from tests.node.fakes import FakeNode, FakeProcess

SPEC = ProfileSpec("p", "cpu", 100.0, 60.0, "/p")


def process(pid: int) -> Any:
    return FakeProcess(str(pid).encode(), pid=pid)


def node_of(*processes: FakeProcess) -> Any:
    node = FakeNode()
    for each in processes:
        node.join(each)
    return node


def test_a_profile_of_the_session_is_told_to_workers_that_start_meanwhile() -> None:
    first, starting, late = process(1), process(0), process(3)
    node = node_of(first, starting)
    profiles = SessionProfiles(node)
    assert profiles.begin(SPEC, []) == [1] and first.sent[0].spec == SPEC and starting.sent == []
    node.join(late)
    profiles.forked(late)
    assert late.sent[0].spec == SPEC
    assert profiles.end("p") == [1, 3] and late.sent[1].profile_id == "p"
    assert profiles.end("p") == []


def test_a_profile_of_some_processes_leaves_the_others_alone() -> None:
    first, second = process(1), process(2)
    node = node_of(first, second)
    profiles = SessionProfiles(node)
    assert profiles.begin(SPEC, [2, 9]) == [2]
    profiles.forked(process(3))
    assert profiles.end("p") == [2] and first.sent == []
