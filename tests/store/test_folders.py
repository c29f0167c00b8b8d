"""Where spilled objects go: settings read, folders made and removed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from sundog.store.folders import Destination, destinations, make_folders, remove_folders


def test_a_directory_a_url_and_the_json_of_ray_are_understood() -> None:
    assert destinations("", "") == []
    assert destinations("/mnt/x", "")[0].folder == "/mnt/x"
    assert destinations("file:///mnt/x", "")[0].folder == "/mnt/x"
    assert destinations("s3://bucket/x", "")[0].folder is None
    given = {"type": "smart_open", "params": {"uri": "s3://b/x", "storage_options": {"anon": True}}}
    assert destinations("", json.dumps(given)) == [Destination("s3://b/x", {"anon": True})]


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "{}",
        '{"type": "filesystem"}',
        '{"type": "tape", "params": {"uri": "x"}}',
        '{"type": "filesystem", "params": {"directory_path": [3]}}',
    ],
)
def test_json_that_names_no_place_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="directory_path"):
        destinations("", text)


def test_folders_are_the_sessions_own_and_go_with_it(tmp_path: Path) -> None:
    session, far = tmp_path / "session", tmp_path / "far"
    session.mkdir()
    (first,) = make_folders(str(session), "s1", [Destination(str(far), {})])
    Path(first, "spilled-0").write_bytes(b"x")
    Path(far, "of-somebody-else").write_bytes(b"x")
    remove_folders(str(session))
    assert os.listdir(far) == ["of-somebody-else"]
    assert not (session / "spilled_objects").exists()


def test_a_folder_that_cannot_be_made_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ValueError, match="cannot be spilled to"):
        make_folders(str(tmp_path), "s1", [Destination(str(tmp_path / "file"), {})])


def test_a_url_without_fsspec_is_said_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"sundog\[spill\]"):
        make_folders(str(tmp_path), "s1", [Destination("s3://bucket", {})])
