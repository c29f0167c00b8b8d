"""What a controller keeps on disk: code once for equal code, the state as a whole, nothing after the end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sundog.serve.specs import Kept, ServeOptions, SpecStore


def kept(port: int) -> Kept:
    return Kept(ServeOptions(), port, {"p": (0, 12)}, [], [])


def test_equal_code_is_kept_once(tmp_path: Path) -> None:
    store = SpecStore(str(tmp_path))
    first, again, other = store.put_code(b"a"), store.put_code(b"a"), store.put_code(b"b")
    assert first == again != other and store.code(other) == b"b"
    assert len(os.listdir(tmp_path)) == 2


def test_the_state_is_replaced_as_a_whole_and_for_this_user_alone(tmp_path: Path) -> None:
    store = SpecStore(str(tmp_path / "serve"))
    assert store.load() is None
    store.save(kept(8000))
    store.save(kept(9000))
    found = SpecStore(store.folder).load()
    assert found is not None and (found.port, found.columns) == (9000, {"p": (0, 12)})
    assert os.listdir(store.folder) == ["state"]
    assert os.stat(os.path.join(store.folder, "state")).st_mode & 0o777 == 0o600
    assert os.stat(store.folder).st_mode & 0o777 == 0o700


def test_the_end_leaves_what_is_not_the_stores(tmp_path: Path) -> None:
    store = SpecStore(str(tmp_path))
    store.put_code(b"a")
    store.save(kept(8000))
    Path(store.board_path()).write_bytes(b"")
    (tmp_path / "status.json").write_text("{}")
    store.clear()
    store.clear()
    assert os.listdir(tmp_path) == ["status.json"]


def test_a_link_in_the_place_of_the_new_file_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    store = SpecStore(str(tmp_path / "serve"))
    os.symlink(victim, os.path.join(store.folder, "state.new"))
    with pytest.raises(OSError):
        store.save(kept(1))
    assert victim.read_text() == "mine"
