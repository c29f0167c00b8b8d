"""A session in one file: what goes in comes out, and a file that is none gives one sentence and no file outside."""

from __future__ import annotations

import json
import os
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from sundog.observe import packed
from sundog.observe.packed import MARK, NotPacked, pack, unpack


@pytest.fixture(autouse=True)
def _own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "temporary"
    home.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(home))


def a_session(tmp_path: Path) -> str:
    folder = tmp_path / "session_1"
    for name in ("logs", "records/deep", "rings", "spilled_objects"):
        (folder / name).mkdir(parents=True)
    (folder / "logs" / "driver.out").write_text("printed")
    (folder / "records" / "deep" / "00000001.seg").write_bytes(b"events" * 1000)
    (folder / "session.json").write_text("{}")
    (folder / "spilled_objects" / "object").write_bytes(b"data of the user")
    os.symlink("/etc/passwd", folder / "logs" / "link")
    os.mkfifo(folder / "logs" / "pipe")
    (folder / "records" / "index.sqlite").write_bytes(b"made from the records")
    return str(folder)


def packed_session(tmp_path: Path) -> str:
    file = str(tmp_path / "one.sundog")
    pack("session_1", a_session(tmp_path), file, "1.0", lambda done, total: None)
    return file


def a_zip(tmp_path: Path, *members: tuple[str, str], mark: object = None) -> str:
    file = str(tmp_path / "made.zip")
    with zipfile.ZipFile(file, "w") as out:
        out.writestr(MARK, json.dumps({"format": 1, "name": "s", "sundog": "1"} if mark is None else mark))
        for name, text in members:
            out.writestr(name, text)
    return file


def test_what_is_packed_comes_out_and_neither_links_nor_objects_go_in(tmp_path: Path) -> None:
    name, folder = unpack(packed_session(tmp_path))
    assert name == "session_1" == packed.name_of(folder)
    files = sorted(os.path.relpath(path, folder) for path in Path(folder).rglob("*") if path.is_file())
    assert files == ["logs/driver.out", "records/deep/00000001.seg", "session.json", MARK]
    assert Path(folder, "logs/driver.out").read_text() == "printed"


def test_the_name_in_a_file_that_somebody_made_forges_no_line_of_a_terminal(tmp_path: Path) -> None:
    name, _ = unpack(a_zip(tmp_path, mark={"format": 1, "name": "s\x1b[2J\nall is well", "sundog": "1"}))
    assert name == r"s\x1b[2J\nall is well"


def test_progress_is_told_up_to_the_end(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    file = str(tmp_path / "f")
    size = pack("s", a_session(tmp_path), file, "1", lambda done, total: told.append((done, total)))
    assert told[-1][0] == told[-1][1] > 6000 and size == os.path.getsize(file)


def test_a_file_is_unpacked_once(tmp_path: Path) -> None:
    file = packed_session(tmp_path)
    _, folder = unpack(file)
    Path(folder, "mine").write_text("still there")
    assert unpack(file) == ("session_1", folder) and Path(folder, "mine").exists()


def test_a_folder_or_link_that_somebody_put_in_the_place_is_not_used(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    trap.mkdir()
    os.symlink(trap, tmp_path / "temporary" / f"sundog-opened-{os.geteuid()}")
    file = packed_session(tmp_path)
    name, folder = unpack(file)
    assert name == "session_1" and list(trap.iterdir()) == []
    assert unpack(file) == (name, folder), "it is found again"


def test_only_the_newest_few_stay_unpacked(tmp_path: Path) -> None:
    file = Path(packed_session(tmp_path))
    folders = []
    for number in range(5):
        other = file.with_name(f"copy{number}")
        other.write_bytes(file.read_bytes())
        folders.append(unpack(str(other))[1])
        os.utime(folders[-1], (number, number))
    assert sum(os.path.isdir(folder) for folder in folders) <= 4 and os.path.isdir(folders[-1])


def test_an_interrupted_export_leaves_no_file(tmp_path: Path) -> None:
    def interrupt(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pack("s", a_session(tmp_path), str(tmp_path / "f"), "1", interrupt)
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith("f")] == []


def _text(path: Path) -> str:
    path.write_text("no zip at all")
    return str(path)


def _cut_off(path: Path) -> str:
    whole = Path(packed_session(path.parent)).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    return str(path)


def _foreign_zip(path: Path) -> str:
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("readme.txt", "hello")
    return str(path)


def test_no_other_user_can_read_what_was_exported(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        file = packed_session(tmp_path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600


@pytest.mark.parametrize("end", ["", "-journal", "-wal", "-shm"])
def test_no_data_base_that_somebody_made_is_unpacked(tmp_path: Path, end: str) -> None:
    _, folder = unpack(
        a_zip(tmp_path, (f"records/index.sqlite{end}", "evil"), ("records/00000001.seg", "events"))
    )
    assert os.listdir(os.path.join(folder, "records")) == ["00000001.seg"]


def _pipe(path: Path) -> str:
    os.makedirs(path.parent / "temporary" / f"sundog-opened-{os.geteuid()}", 0o700)
    os.mkfifo(path)
    return str(path)


@pytest.mark.parametrize("make", [_text, _cut_off, _foreign_zip, _pipe])
def test_a_file_that_is_no_session_says_why(tmp_path: Path, make: Callable[[Path], str]) -> None:
    with pytest.raises(NotPacked):
        unpack(make(tmp_path / "file"))
    assert os.listdir(tmp_path / "temporary" / f"sundog-opened-{os.geteuid()}") == []


@pytest.mark.parametrize(
    "member",
    ["../outside", "/etc/outside", "logs/../../outside", "elsewhere/file", "logs//file", "logs/./file"],
)
def test_a_member_that_no_session_has_is_refused_and_nothing_is_written(tmp_path: Path, member: str) -> None:
    with pytest.raises(NotPacked):
        unpack(a_zip(tmp_path, (member, "evil")))
    assert not list((tmp_path / "temporary").rglob("*outside*"))


def test_a_newer_format_is_refused_with_the_version_that_wrote_it(tmp_path: Path) -> None:
    with pytest.raises(NotPacked, match="newer sundog"):
        unpack(a_zip(tmp_path, mark={"format": 99, "name": "s", "sundog": "9.9"}))


@pytest.mark.parametrize("mark", [[], {"name": "s"}, {"format": "new"}])
def test_a_first_member_of_another_shape_is_refused(tmp_path: Path, mark: object) -> None:
    with pytest.raises(NotPacked):
        unpack(a_zip(tmp_path, mark=mark))


def opened_folder(tmp_path: Path) -> list[str]:
    return os.listdir(tmp_path / "temporary" / f"sundog-opened-{os.geteuid()}")


def test_a_small_file_that_unpacks_to_more_than_is_allowed_is_refused_before_a_byte_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = str(tmp_path / "bomb")
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr(MARK, json.dumps({"format": 1, "name": "s", "sundog": "1"}))
        out.writestr("logs/zeros", bytes(20 << 20))
    assert os.path.getsize(file) < 1 << 16
    monkeypatch.setenv("SUNDOG_packed_max_bytes", str(1 << 20))
    with pytest.raises(NotPacked, match=r"unpacks to 20,971,\d+ bytes.*packed_max_bytes"):
        unpack(file)
    assert opened_folder(tmp_path) == []
    monkeypatch.setenv("SUNDOG_packed_max_bytes", str(30 << 20))
    assert os.path.getsize(os.path.join(unpack(file)[1], "logs/zeros")) == 20 << 20


def test_a_file_that_the_disk_has_no_room_for_is_refused_before_a_byte_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(NotPacked, match="has 1,000 bytes free"):
        unpack(packed_session(tmp_path))
    assert opened_folder(tmp_path) == []


def test_more_files_than_any_session_has_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "_FILES_MAX", 20)
    file = a_zip(tmp_path, *[(f"logs/{number}", "") for number in range(20)])
    with pytest.raises(NotPacked, match="21 files, and at most 20"):
        unpack(file)


def test_a_list_of_members_is_not_read_if_it_is_longer_than_that_of_any_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed, "_LIST_MAX_BYTES", 2000)
    file = a_zip(tmp_path, *[(f"logs/{number}", "") for number in range(100)])
    with pytest.raises(NotPacked, match="claims to hold more than"):
        unpack(file)


def test_a_first_member_without_end_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(NotPacked, match="not as a session has it"):
        unpack(a_zip(tmp_path, mark={"format": 1, "name": "s" * (1 << 20)}))


def test_a_compression_that_could_ask_for_any_memory_is_refused(tmp_path: Path) -> None:
    file = a_zip(tmp_path)
    with zipfile.ZipFile(file, "a", zipfile.ZIP_LZMA) as out:
        out.writestr("logs/file", "text")
    with pytest.raises(NotPacked, match="compressed as no session is"):
        unpack(file)


def test_folders_deeper_than_any_session_has_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotPacked, match="which is not a file of a session"):
        unpack(a_zip(tmp_path, ("logs/" + "a/" * 1500 + "file", "x")))
    assert opened_folder(tmp_path) == []


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotPacked, match="two members of one name"):
        unpack(a_zip(tmp_path, ("logs/file", "x"), ("logs/file", "y")))
