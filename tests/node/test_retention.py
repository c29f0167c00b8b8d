"""Folders of ended sessions: the newest stay, those of living sessions always do."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from sundog.net.loop import Loop
from sundog.node import retention
from sundog.store.folders import Destination, make_folders, make_lock


def session(folder: Path, number: int) -> Path:
    made = folder / f"session_2026-01-{number:02d}_00-00-00_7_ab"
    made.mkdir(mode=0o700)
    os.close(make_lock(str(made)))
    (made / "logs").mkdir()
    return made


def test_the_newest_ended_sessions_stay_and_older_ones_go(tmp_path: Path) -> None:
    made = [session(tmp_path, number) for number in range(1, 8)]
    own = session(tmp_path, 9)
    assert retention.surplus(str(own), 3) == [str(path) for path in reversed(made[:4])]
    assert retention.surplus(str(own), 0) == [str(path) for path in reversed(made)]
    assert retention.surplus(str(own), 10) == []


def test_a_living_session_is_neither_counted_nor_removed(tmp_path: Path) -> None:
    living, ended = session(tmp_path, 1), session(tmp_path, 2)
    own = session(tmp_path, 9)
    with open(living / "lock", "r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert retention.surplus(str(own), 0) == [str(ended)]
        retention.remove(str(living))
        assert (living / "logs").is_dir()
    retention.remove(str(living))
    assert not living.exists()


@pytest.mark.parametrize(
    "what",
    [
        "no lock yet",
        "a lock not marked yet",
        "another program's lock",
        "not a session",
        "the link",
        "open to others",
    ],
)
def test_what_may_be_in_the_making_or_is_no_session_stays(tmp_path: Path, what: str) -> None:
    own = session(tmp_path, 9)
    if what == "the link":
        (tmp_path / "session_latest").symlink_to(own.name)
    elif what == "not a session":
        session(tmp_path, 1).rename(tmp_path / "notes")
    elif what == "open to others":
        session(tmp_path, 1).chmod(0o777)
    else:
        made = session(tmp_path, 1)
        (made / ("lock" if what == "no lock yet" else ".sundog")).unlink()
        if what == "another program's lock":
            (made / ".sundog").symlink_to("elsewhere")
    before = sorted(tmp_path.rglob("*"))
    assert retention.surplus(str(own), 0) == []
    for path in tmp_path.iterdir():
        if path != own:
            retention.remove(str(path))
    assert sorted(tmp_path.rglob("*")) == before


def test_folders_go_one_per_turn_of_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "_FIRST_S", 0.0)
    monkeypatch.setattr(retention, "_PAUSE_S", 0.0)
    made = [session(tmp_path, number) for number in range(1, 5)]
    own = session(tmp_path, 9)
    loop = Loop()
    retention.remove_in_turn(loop, str(own), 1)

    def look() -> None:
        loop.stopped = not any(path.exists() for path in made[:3])
        loop.after(0.0, look)

    loop.after(0.0, look)
    loop.run()
    loop._epoll.close()
    assert made[3].exists() and own.exists()


def test_what_a_session_without_a_node_made_to_spill_into_goes_with_it(tmp_path: Path) -> None:
    ended, far = session(tmp_path, 1), tmp_path / "far"
    (folder,) = make_folders(str(ended), [Destination(str(far), {})])
    assert os.path.isdir(folder)
    retention.remove(str(ended))
    assert not ended.exists() and os.listdir(far) == []
