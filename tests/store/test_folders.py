"""The folders of a session: settings read, folders and locks made, swept and removed."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sundog import trust
from sundog.store import folders
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


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"random_arg": "abc"}, "no parameter 'random_arg'. The parameters are: directory_path, buffer_size"),
        ({"uri": "s3://bucket"}, "no parameter 'uri'"),
        ({"buffer_size": "abc"}, "buffer_size .* is a number of bytes"),
        ({"storage_options": "anon"}, "storage_options .* is a dict"),
    ],
)
def test_parameters_that_the_type_does_not_have_are_refused(params: dict[str, object], words: str) -> None:
    given = {"type": "filesystem", "params": {"directory_path": "/mnt/x"} | params}
    with pytest.raises(ValueError, match=words):
        destinations("", json.dumps(given))


def test_parameters_that_ray_knows_are_taken() -> None:
    params: dict[str, object] = {"directory_path": ["/mnt/x"], "buffer_size": 1_000_000}
    for kind in ("filesystem", "mock_distributed_fs"):
        given = {"type": kind, "params": params}
        assert destinations("", json.dumps(given)) == [Destination("/mnt/x", {})]
    params = {"uri": "s3://b/x", "override_transport_params": {"session": 1}, "buffer_size": 1}
    given = {"type": "smart_open", "params": params}
    assert destinations("", json.dumps(given)) == [Destination("s3://b/x", {})]


def test_folders_are_the_sessions_own_and_go_with_it(tmp_path: Path) -> None:
    session, far = tmp_path / "session", tmp_path / "far"
    session.mkdir()
    (first,) = make_folders(str(session), [Destination(str(far), {})])
    Path(first, "spilled-0").write_bytes(b"x")
    Path(far, "of-somebody-else").write_bytes(b"x")
    remove_folders(str(session))
    assert os.listdir(far) == ["of-somebody-else"]
    assert not (session / "spilled_objects").exists()


def test_a_folder_that_cannot_be_made_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ValueError, match="cannot be spilled to"):
        make_folders(str(tmp_path), [Destination(str(tmp_path / "file"), {})])


def test_a_url_without_fsspec_is_said_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"sundog\[spill\]"):
        make_folders(str(tmp_path), [Destination("s3://bucket", {})])


def test_at_a_place_that_others_use_only_the_sessions_own_folder_goes(tmp_path: Path) -> None:
    session, far, precious = tmp_path / "session", tmp_path / "far", tmp_path / "precious"
    for folder in (session, precious):
        folder.mkdir(mode=0o700)
    (precious / "data").write_text("x")
    make_folders(str(session), [Destination(str(far), {})])
    # As a link by somebody who could write to the folder would be.
    (session / "spilled_objects" / "to-7").symlink_to(precious)
    (session / "spilled_objects" / "to-8").symlink_to("../../precious")
    remove_folders(str(session))
    assert (precious / "data").exists() and os.listdir(far) == []
    assert not (session / "spilled_objects").exists()


def test_links_in_a_folder_that_is_not_this_users_lead_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, data = tmp_path / "session", tmp_path / "sundog-session"
    (session / "spilled_objects").mkdir(parents=True, mode=0o700)
    data.mkdir()
    (session / "spilled_objects" / "to-0").symlink_to(data)
    uid = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    remove_folders(str(session))
    assert data.exists()
    monkeypatch.undo()
    (session / "spilled_objects").chmod(0o777)
    remove_folders(str(session))
    assert data.exists()


def test_a_folder_of_another_user_is_no_place_for_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = tmp_path / "far"
    far.mkdir()

    def refuse(path: str) -> str:
        raise trust.Untrusted(1, "it belongs to another user (uid 7)", path)

    monkeypatch.setattr(trust, "check_container", refuse)
    with pytest.raises(ValueError, match="belongs to another user"):
        make_folders(str(tmp_path), [Destination(str(far), {})])


# ---------------------------------------------------------------------- shared memory
@pytest.fixture(params=["nameless", "named"])
def shared(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The lock of the shared memory of a session, with and without files that have no name."""
    if request.param == "named":
        monkeypatch.setattr(os, "O_TMPFILE", os.O_DIRECTORY | os.O_CREAT | os.O_EXCL)
    lock = folders.make_shared_lock(f"{tmp_path}/sundog-1-ab")
    assert os.listdir(tmp_path) == ([] if request.param == "nameless" else ["sundog-1-ab.lock"])
    monkeypatch.undo()
    yield lock
    with contextlib.suppress(OSError):
        os.close(lock)


def sweep(tmp_path: Path) -> list[str]:
    return [path for name in os.listdir(tmp_path) if (path := folders.sweep_shared(f"{tmp_path}/{name}"))]


def test_shared_memory_stays_while_its_lock_is_held_and_goes_when_it_is_not(
    tmp_path: Path, shared: int
) -> None:
    root = tmp_path / "sundog-1-ab"
    assert sweep(tmp_path) == []
    folders.make_shared(str(root), "/the/session", shared)
    folders.make_shared(str(root), "/the/session", shared)  # by the node and by the driver
    assert os.listdir(tmp_path) == ["sundog-1-ab"]
    (root / "segment").write_bytes(b"x")
    assert sweep(tmp_path) == [] and (root / "segment").exists()
    os.close(shared)
    assert sweep(tmp_path) == ["/the/session"]
    assert os.listdir(tmp_path) == []


def test_a_lock_that_was_never_put_into_a_folder_goes_with_its_holder(tmp_path: Path, shared: int) -> None:
    os.close(shared)
    sweep(tmp_path)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("moment", ["open_folder", "link"])
def test_a_sweep_amid_the_making_costs_nothing(
    tmp_path: Path, shared: int, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    root = str(tmp_path / "sundog-1-ab")
    where = trust if moment == "open_folder" else os
    really = getattr(where, moment)
    swept: list[bool] = []

    def late(*args: object, **options: object) -> object:
        if not swept:
            swept.append(True)
            os.rmdir(root)  # what `sweep_shared` does to a folder without a lock
        return really(*args, **options)

    monkeypatch.setattr(where, moment, late)
    folders.make_shared(root, "/the/session", shared)
    assert swept and sorted(os.listdir(root)) == [".lock", ".session"]


def test_what_a_kill_amid_the_removal_leaves_is_swept(tmp_path: Path, shared: int) -> None:
    root = tmp_path / "sundog-1-ab"
    folders.make_shared(str(root), "/the/session", shared)
    (root / ".session").unlink()  # the lock is the last to go
    os.close(shared)
    (root / "segment").write_bytes(b"x")
    sweep(tmp_path)
    assert not root.exists()
    root.mkdir(mode=0o700)  # then its name
    sweep(tmp_path)
    assert not root.exists()


def test_a_second_name_of_a_file_planted_as_a_lock_is_all_that_a_sweep_removes(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("x")
    precious.chmod(0o600)
    os.link(precious, tmp_path / "sundog-1-aaaaaaaa.lock")
    assert sweep(tmp_path) == []
    assert precious.read_text() == "x" and os.listdir(tmp_path) == ["precious"]


def test_a_folder_without_a_lock_is_not_judged(tmp_path: Path) -> None:
    (tmp_path / "sundog-1-ab").mkdir(mode=0o700)
    (tmp_path / "sundog-1-ab" / "data").write_text("x")
    assert sweep(tmp_path) == []
    assert (tmp_path / "sundog-1-ab" / "data").exists()


def test_shared_memory_belongs_to_the_session_that_it_points_to(tmp_path: Path, shared: int) -> None:
    root = str(tmp_path / "sundog-1-ab")
    folders.make_shared(root, "/the/session", shared)
    assert folders.is_shared_of(root, "/the/session")
    assert not folders.is_shared_of(root, "/another/session")
    assert not folders.is_shared_of("/dev/shm", "/the/session")


# ---------------------------------------------------------------------- the session's lock
def test_a_session_has_ended_for_certain_when_its_marked_lock_is_free(tmp_path: Path) -> None:
    path = str(tmp_path / "session_1")
    os.mkdir(path, 0o700)
    lock = folders.make_lock(path)
    folder = trust.open_folder(path)
    assert folders.is_held(folder)
    assert folders.lock_of_ended(path) is None
    os.close(lock)
    assert not folders.is_held(folder)
    ended = folders.lock_of_ended(path)
    assert ended is not None
    os.close(ended)
    os.close(folder)
    os.rename(path, tmp_path / "session_2")
    assert folders.lock_of_ended(str(tmp_path / "session_2")) is None, "its mark names another"
