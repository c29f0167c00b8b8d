"""Copies of folders: links, what is no file, what cannot be read, what changes meanwhile, trees without end."""

from __future__ import annotations

import os
import socket
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from sundog.exceptions import RuntimeEnvSetupError
from sundog.runtime_env import normalize, snapshot


@pytest.fixture
def session(tmp_path: Path) -> str:
    path = tmp_path / "root" / "session_1"
    path.mkdir(parents=True)
    return str(path)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "place" / "work"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "a.py").write_text("A = 1")
    (folder.parent / "secret").write_text("of the folder above")
    return folder


def copy_of(tree: Path, session: str, **fields: Any) -> Path:
    return Path(normalize({"working_dir": str(tree), **fields}, session_dir=session).working_dir)


def has_content(copy: Path) -> list[str]:
    """Every file with bytes of its own; `os.walk` follows no links."""
    return sorted(
        os.path.relpath(os.path.join(folder, name), copy)
        for folder, _, names in os.walk(copy)
        for name in names
        if not os.path.islink(os.path.join(folder, name))
    )


@pytest.mark.parametrize("target", ["..", "/", "../..", "../secret"])
def test_a_link_out_of_the_folder_stays_a_link_and_nothing_behind_it_is_copied(
    session: str, tree: Path, target: str
) -> None:
    (tree / "out").symlink_to(target)
    copy = copy_of(tree, session)
    assert has_content(copy) == ["sub/a.py"]
    assert os.readlink(copy / "out") == os.path.realpath(tree / "out")


def test_a_link_out_of_the_folder_is_noted_once(
    session: str, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "out").symlink_to("..")
    (tree / "nowhere").symlink_to("../nothing/there")
    copy_of(tree, session)
    copy_of(tree, session)
    told = capsys.readouterr().err
    assert told.count("links that lead out") == 1
    assert f"out → {tree.parent}" in told and "nowhere" not in told


def test_a_link_to_what_is_copied_leads_to_the_copy(session: str, tree: Path) -> None:
    (tree / "absolute").symlink_to(tree / "sub" / "a.py")
    (tree / "sub" / "up").symlink_to("..")
    (tree / "folder").symlink_to("sub")
    copy = copy_of(tree, session)
    assert has_content(copy) == ["sub/a.py"]
    assert [os.readlink(copy / name) for name in ("absolute", "folder", "sub/up")] == [
        "sub/a.py",
        "sub",
        "..",
    ]
    tree.joinpath("sub", "a.py").write_text("A = 2")
    assert (copy / "absolute").read_text() == (copy / "folder" / "up" / "sub" / "a.py").read_text() == "A = 1"


def test_a_link_to_what_is_left_out_leads_to_the_original(session: str, tree: Path) -> None:
    (tree / "build").mkdir()
    (tree / "build" / "out").write_text("built")
    (tree / "current").symlink_to("build/out")
    copy = copy_of(tree, session, excludes=["build/"])
    assert has_content(copy) == ["sub/a.py"]
    assert (copy / "current").read_text() == "built"


def test_a_module_with_a_link_out_of_it_is_not_followed_either(session: str, tree: Path) -> None:
    (tree / "out").symlink_to("..")
    env = normalize({"py_modules": [str(tree)]}, session_dir=session)
    assert has_content(Path(env.py_modules[0])) == ["work/sub/a.py"]


def test_another_target_of_a_link_is_another_environment(session: str, tree: Path) -> None:
    (tree / "out").symlink_to("..")
    first = normalize({"working_dir": str(tree)}, session_dir=session)
    (tree / "out").unlink()
    (tree / "out").symlink_to("/")
    assert normalize({"working_dir": str(tree)}, session_dir=session).key != first.key


def test_a_folder_that_is_named_by_a_link_is_copied(session: str, tree: Path) -> None:
    link = tree.parent / "link"
    link.symlink_to(tree)
    assert has_content(copy_of(link, session)) == ["sub/a.py"]


def test_sockets_pipes_and_devices_are_left_out(session: str, tree: Path) -> None:
    os.mkfifo(tree / "pipe")
    os.mkfifo(tree / "sub" / ".gitignore")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(tree / "socket"))
        if os.geteuid() == 0:
            os.mknod(tree / "zero", 0o600 | 0o020000, os.makedev(1, 5))
        assert has_content(copy_of(tree, session)) == ["sub/a.py"]


def test_empty_folders_are_there(session: str, tree: Path) -> None:
    (tree / "logs" / "today").mkdir(parents=True)
    assert (copy_of(tree, session) / "logs" / "today").is_dir()


def test_a_file_that_vanishes_or_becomes_a_pipe_while_it_is_copied_is_left_out(
    session: str, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("gone", "piped", "linked"):
        (tree / name).write_text(name)
    found = snapshot._entries

    def entries(root: str, excludes: tuple[str, ...]) -> Any:
        seen = found(root, excludes)
        for name in ("gone", "piped", "linked"):
            (tree / name).unlink()
        os.mkfifo(tree / "piped")
        (tree / "linked").symlink_to("../secret")
        return seen

    monkeypatch.setattr(snapshot, "_entries", entries)
    assert has_content(copy_of(tree, session)) == ["sub/a.py"]


def test_a_file_that_grows_without_end_is_refused(
    session: str, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "log").write_bytes(b"x")
    monkeypatch.setattr(snapshot, "SIZE_LIMIT_BYTES", 1 << 20)
    found = snapshot._entries

    def entries(root: str, excludes: tuple[str, ...]) -> Any:
        seen = found(root, excludes)
        os.truncate(tree / "log", 1 << 30)
        return seen

    monkeypatch.setattr(snapshot, "_entries", entries)
    with pytest.raises(RuntimeEnvSetupError, match=r"has at least .* more than the 1 MiB"):
        copy_of(tree, session)


def unreadable(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Permission is denied for `path`, for the superuser as well."""
    opened, scanned = os.open, os.scandir

    def denied(name: Any, *rest: Any, **more: Any) -> int:
        if str(name) == str(path):
            raise PermissionError(13, "Permission denied", str(name))
        return opened(name, *rest, **more)

    def denied_folder(name: Any) -> Any:
        if str(name) == str(path):
            raise PermissionError(13, "Permission denied", str(name))
        return scanned(name)

    monkeypatch.setattr(os, "open", denied)
    monkeypatch.setattr(os, "scandir", denied_folder)


@pytest.mark.parametrize("name", ["sub/a.py", "sub"])
def test_what_cannot_be_read_is_named_with_the_way_out(
    session: str, tree: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with monkeypatch.context() as patch:
        unreadable(tree / name, patch)
        with pytest.raises(RuntimeEnvSetupError) as caught:
            copy_of(tree, session)
        assert f"{tree / name} cannot be copied" in str(caught.value) and "excludes=[...]" in str(
            caught.value
        )
        assert has_content(copy_of(tree, session, excludes=["sub"])) == []


def test_a_huge_tree_is_refused_before_all_of_it_was_looked_at(
    session: str, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(60):
        (tree / f"{number:03}").write_text("")
    monkeypatch.setattr(snapshot, "ENTRY_LIMIT", 5)
    with pytest.raises(RuntimeEnvSetupError, match="more than 50 files and folders"):
        copy_of(tree, session)
    monkeypatch.setattr(snapshot, "SIZE_LIMIT_BYTES", 1000)
    (tree / "000").write_text("x" * 2000)
    os.truncate(tree / "059", 1 << 40)
    with pytest.raises(RuntimeEnvSetupError, match="has at least 0 MiB") as caught:
        copy_of(tree, session)
    assert caught.value.size_bytes == 2000  # type: ignore[attr-defined]


def test_an_archive_of_too_many_files_is_refused_before_one_is_unpacked(
    session: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "many.zip"
    with zipfile.ZipFile(archive, "w") as made:
        for number in range(60):
            made.writestr(f"{number:03}", "")
    monkeypatch.setattr(snapshot, "ENTRY_LIMIT", 5)
    monkeypatch.setattr(zipfile.ZipFile, "extractall", None)
    with pytest.raises(RuntimeEnvSetupError, match="more than 50 files and folders"):
        copy_of(archive, session)


def test_a_tree_deeper_than_pythons_stack_is_copied(session: str, tree: Path) -> None:
    here = os.getcwd()
    os.chdir(tree)
    try:
        for _ in range(1200):
            os.mkdir("d")
            os.chdir("d")
        os.chdir(here)
        assert len(list(snapshot._walk(str(tree), ()))) == 1202
    finally:
        os.chdir(here)
        # Python 3.11's own rmtree, which pytest cleans up with, cannot remove it.
        subprocess.run(["rm", "-rf", str(tree / "d")], check=True)


def test_what_git_ignores_is_copied_if_the_setting_says_so(
    session: str, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / ".gitignore").write_text("*.log")
    (tree / ".rayignore").write_text("*.tmp")
    for name in ("a.log", "b.tmp"):
        (tree / name).write_text("x")
    assert {"a.log", "b.tmp"}.isdisjoint(has_content(copy_of(tree, session)))
    monkeypatch.setenv("RAY_RUNTIME_ENV_IGNORE_GITIGNORE", "1")
    assert {"a.log", "b.tmp"} & set(has_content(copy_of(tree, session))) == {"a.log"}
