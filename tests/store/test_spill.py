"""Copying segments out and back: layout, what is left out, what counts as gone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sundog.state.store_steps import SpillPlace
from sundog.store import spill
from sundog.store.folders import Destination
from sundog.store.segments import RESTORED
from sundog.store.spill import FolderTarget, SpillTarget


def segment(folder: Path, name: str, content: bytes, size: int) -> tuple[str, str]:
    path = folder / name
    path.write_bytes(content)
    os.truncate(path, size)
    return name, str(path)


def check_round_trip(target: SpillTarget, folder: Path) -> None:
    contents = {"a": os.urandom(5000), "b": os.urandom(12 << 20), "c": os.urandom(1)}
    sources = [segment(folder, name, content, 16 << 20) for name, content in contents.items()]
    sources.insert(1, ("gone", str(folder / "gone")))
    url, moved = target.write("spilled-0", sources)
    assert [name for name, _, _ in moved] == ["a", "b", "c"]
    assert target.holds(url) and not target.holds("/elsewhere/spilled-0")
    for name, offset, length in moved:
        assert len(contents[name]) <= length < len(contents[name]) + 4096  # the hole behind it is not copied
        spill.restore(target, SpillPlace(url, offset, length), str(folder), name)
        assert (folder / RESTORED / name).read_bytes()[: len(contents[name])] == contents[name]
    target.delete(url)
    with pytest.raises(FileNotFoundError):
        spill.restore(target, SpillPlace(url, *moved[0][1:]), str(folder), "a2")
    assert not list((folder / RESTORED).glob(".part*"))
    assert not (folder / RESTORED / "a2").exists()


def test_segments_go_to_a_folder_and_come_back(tmp_path: Path) -> None:
    target = FolderTarget(str(tmp_path / "spilled"))
    check_round_trip(target, tmp_path)


def test_segments_go_to_a_url_and_come_back(tmp_path: Path) -> None:
    pytest.importorskip("fsspec", reason="spilling to a URL needs fsspec: pip install 'sundog[spill]'")
    target = spill.target_for(Destination("memory://spills", {}), "session", "")
    check_round_trip(target, tmp_path)
    target.clear()


def test_a_write_to_a_url_that_fails_leaves_no_half_of_a_file(tmp_path: Path) -> None:
    fsspec = pytest.importorskip(
        "fsspec", reason="spilling to a URL needs fsspec: pip install 'sundog[spill]'"
    )
    target = spill.target_for(Destination("memory://spills", {}), "session", "")
    whole = segment(tmp_path, "a", b"x" * 5000, 8192)
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match=r"."):
        target.write("spilled-1", [whole, ("b", str(tmp_path / "folder"))])  # cannot be read
    assert not fsspec.filesystem("memory").exists("spills/sundog-session/spilled-1")
    target.clear()


def test_every_object_in_a_file_can_be_mapped_where_it_lies(tmp_path: Path) -> None:
    sources = [segment(tmp_path, name, b"x" * 5001, 8192) for name in "abc"]
    _, moved = FolderTarget(str(tmp_path / "spilled")).write("spilled-0", sources)
    assert all(offset % 4096 == 0 for _, offset, _ in moved)


def test_a_file_that_was_cut_short_is_as_good_as_gone(tmp_path: Path) -> None:
    target = FolderTarget(str(tmp_path / "spilled"))
    url, moved = target.write("spilled-0", [segment(tmp_path, "a", b"x" * 9000, 9000)])
    os.truncate(url, 100)
    with pytest.raises(FileNotFoundError):
        spill.restore(target, SpillPlace(url, *moved[0][1:]), str(tmp_path), "a")


def test_a_scan_measures_objects_and_the_rest_and_removes_what_it_is_told_to(tmp_path: Path) -> None:
    segment(tmp_path, "aa-bb-1", b"x" * 8192, 1 << 20)
    segment(tmp_path, "free-bb-2", b"x" * 4096, 4096)
    segment(tmp_path, "free-bb-3", b"x" * 4096, 4096)
    (tmp_path / RESTORED).mkdir()
    segment(tmp_path / RESTORED, "aa-bb-0", b"x" * 4096, 4096)
    segment(tmp_path / RESTORED, ".part-aa-bb-9", b"x" * 4096, 4096)
    os.symlink("/nowhere", tmp_path / ".session")
    found, other = spill.scan(str(tmp_path), ["free-bb-3", "free-bb-4"])
    assert {name: seen.size for name, seen in found.items()} == {"aa-bb-1": 8192, "aa-bb-0": 4096}
    assert other == 4096
    assert found["aa-bb-1"].made_at > 0
