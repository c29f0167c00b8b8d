"""The session's folder, removed while the session runs: made again for this user alone, or not at all."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from sundog import trust
from sundog.node.own_folder import OwnFolder
from sundog.store import folders
from tests.node.fakes import FakeNode


@pytest.fixture
def node(tmp_path: Path) -> Any:
    path = str(tmp_path / "home" / "session_1")
    made = FakeNode()
    made.session |= {"path": path, "spill_folders": [f"{path}/spilled_objects"]}
    return made


def test_it_is_private_again_with_its_home_and_its_lock_whatever_the_umask(node: Any) -> None:
    own = OwnFolder(node)
    before = os.umask(0)
    try:
        own.make_again()
    finally:
        os.umask(before)
    path = Path(node.session["path"])
    for folder in (path.parent, path, path / "logs", path / "rings", path / "spilled_objects"):
        assert folder.stat().st_mode & 0o777 == 0o700
    fd = trust.open_folder(str(path))
    assert folders.is_held(fd)
    os.close(fd)
    os.close(own._lock)


def test_a_lock_that_alone_was_removed_is_made_again(node: Any) -> None:
    own = OwnFolder(node)
    own.make_again()
    os.unlink(f"{node.session['path']}/lock")
    own.make_again()
    assert folders.lock_of_ended(node.session["path"]) is None
    os.close(own._lock)
    ended = folders.lock_of_ended(node.session["path"])
    assert ended is not None
    os.close(ended)


def test_it_is_not_made_where_another_user_made_its_home_meanwhile(
    node: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Path(node.session["path"]).parent
    home.mkdir()
    if os.geteuid() == 0:
        os.chown(home, 54321, 54321)
    else:
        uid = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    with pytest.raises(trust.Untrusted, match="another user"):
        OwnFolder(node).make_again()
    assert os.listdir(home) == []


def test_it_is_not_a_link_that_was_put_in_its_place(node: Any, tmp_path: Path) -> None:
    path = Path(node.session["path"])
    path.parent.mkdir()
    (tmp_path / "trap").mkdir(mode=0o700)
    path.symlink_to(tmp_path / "trap")
    with pytest.raises(trust.Untrusted, match="link"):
        OwnFolder(node).make_again()
    assert os.listdir(tmp_path / "trap") == []
    shutil.rmtree(tmp_path / "home")
