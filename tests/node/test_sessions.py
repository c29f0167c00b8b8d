"""What a node says of its session, and in which order."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sundog.node.sessions import publish


def _session(tmp_path: Path) -> Any:
    path = tmp_path / "session_1"
    path.mkdir(mode=0o700)
    return {"name": "session_1", "path": str(path), "shm_root": "/x", "node_pid": 1, "node_id": b"\1" * 16}


def test_whoever_waited_for_a_started_session_finds_it_by_its_link_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, replace = _session(tmp_path), os.replace
    seen: list[bool] = []

    def named(source: str, target: str) -> None:
        if target.endswith("session.json"):
            seen.extend(os.path.lexists(tmp_path / name) for name in ("session_latest", "started"))
        replace(source, target)

    monkeypatch.setattr(os, "replace", named)
    publish(session, {"CPU": 1.0}, persistent=True)
    assert seen == [True, True]
    assert os.readlink(tmp_path / "started") == "session_1"
    assert json.loads((tmp_path / "session_1" / "session.json").read_text())["persistent"] is True


def test_a_session_of_a_program_has_no_link_by_which_others_join_it(tmp_path: Path) -> None:
    publish(_session(tmp_path), {}, persistent=False)
    assert sorted(os.listdir(tmp_path)) == ["session_1", "session_latest"]
