"""Which session a word means, without one that runs."""

import fcntl
import json
import os
import threading
import zipfile
from pathlib import Path

import pytest

from sundog.observe import packed
from sundog.observe.sessions import NoSuchSession, all_sessions, open_session
from sundog.wire.requests import Status


@pytest.fixture(autouse=True)
def opened_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "unpacked").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "unpacked"))


def make(home: Path, name: str) -> Path:
    folder = home / name
    (folder / "logs").mkdir(parents=True)
    folder.chmod(0o700)
    (folder / "logs" / "node.log").write_text(f"of {name}\n")
    (folder / ".sundog").symlink_to(name)
    return folder


def test_latest_is_the_newest_and_a_part_of_a_name_is_enough(tmp_path: Path) -> None:
    old = make(tmp_path, "session_2026-01-01_00-00-00_1_aaaa")
    new = make(tmp_path, "session_2026-01-02_00-00-00_1_bbbb")
    (tmp_path / "session_latest").symlink_to(new)
    (tmp_path / "session_of_another_program").mkdir()
    home = str(tmp_path)
    assert [each.path for each in all_sessions(home)] == [str(new), str(old)]
    for which in (None, "latest", new.name, str(new), str(tmp_path / "session_latest"), "bbbb"):
        found = open_session(which, home)
        assert (found.path, found.is_live) == (str(new), False)
    assert open_session("aaaa", home).path == str(old)
    with pytest.raises(ConnectionError, match="has ended"):
        open_session("aaaa", home).ask(Status())


def test_a_session_that_is_starting_is_waited_for_and_not_taken_for_an_ended_one(tmp_path: Path) -> None:
    folder = make(tmp_path, "session_2026-01-01_00-00-00_1_aaaa")
    facts = {"node_pid": os.getpid(), "shm_root": "/x", "persistent": False, "resources": {"CPU": 2.0}}

    def write() -> None:
        (folder / "session.json.new").write_text(json.dumps(facts))
        os.replace(folder / "session.json.new", folder / "session.json")

    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        late = threading.Timer(0.2, write)
        late.start()
        try:
            found = open_session(str(folder), str(tmp_path))
        finally:
            late.join()
    assert found.is_live and found.info is not None and found.info.cpus == 2.0


def test_a_word_that_means_no_session_is_answered_in_one_sentence(tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    with pytest.raises(NoSuchSession, match="running or ended"):
        open_session(None, home)
    make(tmp_path / "home", "session_1_aaaa")
    make(tmp_path / "home", "session_2_aaaa")
    with pytest.raises(NoSuchSession, match="2 sessions have 'aaaa'"):
        open_session("aaaa", home)
    with pytest.raises(NoSuchSession, match="no session 'nothing'"):
        open_session("nothing", home)
    with pytest.raises(NoSuchSession, match="No such file"):
        open_session("/no/such/place", home)
    (tmp_path / "empty").mkdir(mode=0o700)
    with pytest.raises(NoSuchSession, match="no records"):
        open_session(str(tmp_path / "empty"), home)
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(NoSuchSession, match="other users can write"):
        open_session(str(tmp_path / "open"), home)


def test_a_session_is_packed_into_one_file_and_opened_from_it(tmp_path: Path) -> None:
    folder = make(tmp_path, "session_1_aaaa")
    (folder / "logs" / "link").symlink_to("/etc/passwd")
    for name in ("metrics/ab.metrics", "metrics/token", "serve/status.json", "serve/state"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(name)
    file = str(tmp_path / "run.sundog")
    seen: list[tuple[int, int]] = []
    assert (
        packed.pack(folder.name, str(folder), file, "1", lambda *at: seen.append(at)) == os.stat(file).st_size
    )
    assert seen and seen[-1][0] == seen[-1][1]
    found = open_session(file, str(tmp_path / "nowhere"))
    assert (found.name, found.file, found.is_live) == (folder.name, file, False)
    assert Path(found.path, "logs", "node.log").read_text() == "of session_1_aaaa\n"
    assert not Path(found.path, "logs", "link").exists()
    for name, is_there in (
        ("metrics/ab.metrics", 1),
        ("metrics/token", 0),
        ("serve/status.json", 1),
        ("serve/state", 0),
    ):
        assert Path(found.path, name).exists() == bool(is_there), name
    assert open_session(file).path == found.path  # it is not unpacked again


def test_a_truncated_or_foreign_file_is_refused(tmp_path: Path) -> None:
    folder = make(tmp_path, "session_1_aaaa")
    file = tmp_path / "run.sundog"
    packed.pack(folder.name, str(folder), str(file), "1", lambda *_: None)
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(NoSuchSession, match="it is damaged"):
        open_session(str(file))
    file.write_bytes(b"GIF89a")
    with pytest.raises(NoSuchSession, match="damaged, or not a file"):
        open_session(str(file))
    with zipfile.ZipFile(file, "w") as zip_:
        zip_.writestr("readme.txt", "hello")
    with pytest.raises(NoSuchSession, match="not one of sundog session export"):
        open_session(str(file))
    for name in ("logs/../../evil", "/etc/passwd", "code.py"):
        with zipfile.ZipFile(file, "w") as zip_:
            zip_.writestr(packed.MARK, '{"format": 1, "name": "x"}')
            zip_.writestr(name, "evil")
        with pytest.raises(NoSuchSession, match="which is not a file of a session"):
            open_session(str(file))
    with zipfile.ZipFile(file, "w") as zip_:
        zip_.writestr(packed.MARK, '{"format": 99, "name": "x", "sundog": "9.9"}')
    with pytest.raises(NoSuchSession, match=r"a newer sundog \(9.9\)"):
        open_session(str(file))
