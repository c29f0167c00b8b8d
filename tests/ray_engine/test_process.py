"""Ids, places and notes in the ring of a process on a Ray cluster."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sundog import event_names, events, trust
from sundog.config import Config
from sundog.exceptions import AsyncioActorExit
from sundog.ray_engine import process
from tests.ray_engine.fakes import FakeExecution, FakeIdentity, FakeRef

TASK = bytes.fromhex("0102030405060708" + "ff" * 12 + "01000000")


@pytest.fixture
def recorder(tmp_path: Path) -> Any:
    made = process.ClusterProcess.__new__(process.ClusterProcess)
    made.identity = FakeIdentity(session_dir=str(tmp_path))
    made.config, made.pusher, made._places = Config(), None, {}
    made.record()
    yield made
    made.close()


def events_of(recorder: process.ClusterProcess) -> list[tuple[Any, ...]]:
    assert recorder.ring is not None
    slots = events.read_slots(recorder.ring.path)
    assert slots is not None
    return list(slots.raw())


def test_a_submission_is_noted_with_its_owner_and_its_place(recorder: process.ClusterProcess) -> None:
    ref = FakeRef(TASK)
    recorder.submitted([ref, ref], "square", 5.0)
    ((task, submit, *_, name, kind, _, _, _, _, _),) = events_of(recorder)
    assert recorder.ring is not None
    place, mark = event_names.read_names(recorder.ring.path)[name]
    assert (task, submit, kind) == (b"driver-1" + TASK[:8], 5.0, events.SITE)
    assert mark == "@square" and place.endswith("in test_a_submission_is_noted_with_its_owner_and_its_place")


def test_what_has_no_task_is_not_noted(recorder: process.ClusterProcess) -> None:
    recorder.submitted(None, "square", 5.0)
    recorder.submitted([], "square", 5.0)
    assert events_of(recorder) == []


def test_a_get_is_noted_with_its_object_and_its_place(recorder: process.ClusterProcess) -> None:
    ref = FakeRef(TASK)
    recorder.span(events.GET, [ref], 1.0, 2.0, True)
    ((task, _, start, end, _, kind, flags, *_),) = events_of(recorder)
    assert (task, start, end, kind, flags) == (bytes(8) + TASK[:8], 1.0, 2.0, events.GET, events.FAILED)


def end_of(recorder: process.ClusterProcess, error: BaseException | None) -> tuple[int, list[Any]]:
    recorder.ended(FakeExecution(events.TASK, "f", bytes(8) + TASK[:8]), error)
    assert recorder.ring is not None
    notes = [each for each in event_names.read_notes(recorder.ring.path) if each[0] != "home"]
    return events_of(recorder)[-1][6] & events.FAILED, notes


def test_a_failure_is_noted_with_its_text(recorder: process.ClusterProcess) -> None:
    failed, notes = end_of(recorder, ValueError("too large"))
    assert failed and notes[0][0] == "error" and notes[0][1]["message"] == "ValueError: too large"


@pytest.mark.parametrize("error", [None, SystemExit(0), GeneratorExit(), AsyncioActorExit()])
def test_an_end_on_purpose_is_no_failure(
    recorder: process.ClusterProcess, error: BaseException | None
) -> None:
    assert end_of(recorder, error) == (0, [])


def test_large_arguments_by_value_are_noted_with_their_size(recorder: process.ClusterProcess) -> None:
    ref = FakeRef(TASK)
    recorder.submitted(ref, "square", 5.0, (b"x" * 100_000, 3, "y"))
    recorder.submitted(ref, "square", 6.0, (b"x", 3))
    kinds = [each[5] for each in events_of(recorder)]
    assert kinds.count(events.SITE) == 2 and kinds.count(events.MOVED) == 1
    [moved] = [each for each in events_of(recorder) if each[5] == events.MOVED]
    assert moved[4] == 100_001


@pytest.mark.parametrize("what", ["link", "open to all"])
def test_nothing_is_recorded_where_another_user_made_the_folder_first(
    tmp_path: Path, recorder: process.ClusterProcess, what: str
) -> None:
    """Ray's folder of a session is open to every user of the machine."""
    session = tmp_path / "session"
    own = session / f"sundog-{os.geteuid()}"
    session.mkdir()
    if what == "link":
        own.symlink_to(tmp_path / "elsewhere")
        (tmp_path / "elsewhere").mkdir()
    else:
        own.mkdir()
        own.chmod(0o777)
    made = process.ClusterProcess.__new__(process.ClusterProcess)
    made.identity, made.config = recorder.identity, recorder.config
    made.identity.session_dir = str(session)
    with pytest.raises(trust.Untrusted):
        made.record()
    assert list(own.iterdir()) == []


def test_a_process_that_cannot_record_goes_on_and_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Refused(process.ClusterProcess):
        def __init__(self, role: str) -> None:
            self.identity = FakeIdentity(session_dir="/session")
            self.config, self.ring = Config(), None

        def record(self) -> None:
            raise trust.Untrusted(1, "it belongs to another user", "/session/sundog-0")

    monkeypatch.setattr(process, "ClusterProcess", Refused)
    monkeypatch.setattr(process, "me", None)
    assert process.ready("driver").ring is None
    assert "/session/sundog-0 is not used, it belongs to another user" in capsys.readouterr().err
