"""The records of a submitted job, printed on the cluster and read here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sundog import events
from sundog.engines import sessions
from sundog.observe.records import read_session
from sundog.observe.sessions import open_session
from sundog.ray_engine import handing


@pytest.fixture
def session(leak_check: Path) -> str:
    folder = leak_check / "session_2026-01-01_00-00-00_7_abcd"
    for part in ("rings", "records", "logs"):
        (folder / part).mkdir(parents=True, mode=0o700)
    ring = events.Ring(str(folder / "rings" / f"{'cd' * 8}.ring"), 64, "worker", b"\1\0\0\0")
    ring.write(events.TASK, bytes(16), ring.name("square"), 1.0, 2.0, 3.0)
    ring.close()
    (folder / "session.json").write_text(json.dumps({"engine": "ray", "submission_id": "raysubmit_1"}))
    return str(folder)


def test_records_travel_as_text_and_open_as_a_session(session: str, tmp_path: Path) -> None:
    data = handing.taken(f"a line of Ray's\n{handing.printed(session)}\nanother\n")
    assert data is not None
    (tmp_path / "a.sundog").write_bytes(data)
    opened = open_session(str(tmp_path / "a.sundog"))
    assert [row.name for row in read_session(opened.path).tasks] == ["square"]


def test_output_without_records_gives_none() -> None:
    assert handing.taken("There are no records of job x on this node") is None


def test_a_session_is_found_by_the_id_of_its_job(session: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "session_paths", lambda _: ["/nowhere", session])
    assert handing.session_of("raysubmit_1") == session
    assert handing.session_of("raysubmit_2") == ""
