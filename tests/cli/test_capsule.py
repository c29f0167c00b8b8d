"""`sundog capsule`: what is listed, what is copied, and the question before one is opened."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sundog.capsules.rows import Header, Outcome, write
from sundog.cli import capsule, replay
from sundog.observe import sessions
from tests.capsules.made import HEADER, contents
from tests.cli.fakes import FakeSession

Run = Callable[..., Result]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the capsules of the only session are."""
    monkeypatch.setattr(sessions, "all_sessions", lambda: [FakeSession(path=str(tmp_path))])
    made = tmp_path / "capsules"
    made.mkdir(mode=0o700)
    return made


def put(folder: Path, number: int, **fields: object) -> Header:
    header = HEADER._replace(task_id=f"{number:032x}", made_s=float(number), **fields)  # type: ignore[arg-type]
    write(str(folder / f"{number}.capsule"), header, contents())
    return header


def test_a_session_without_capsules_says_how_one_comes_to_be(folder: Path, sundog: Run) -> None:
    assert "A task that fails leaves one; sundog capture FUNCTION" in sundog("capsule", "list").output


def test_capsules_are_listed_the_newest_first_and_no_more_than_asked_for(folder: Path, sundog: Run) -> None:
    for number, name in enumerate(("first", "second", "third"), 1):
        put(folder, number, name=name)
    put(folder, 9, name="returned", outcome=Outcome("", "3"))
    lines = sundog("capsule", "list", "--limit", "3").output.splitlines()
    assert [line.split()[2] for line in lines[1:]] == ["returned", "third", "second"]
    assert "returned: 3" in lines[1] and "ValueError: no" in lines[2]
    assert lines[1].rstrip().endswith(f"{9:032x}")


def test_a_file_that_is_no_capsule_is_left_out_of_the_list(folder: Path, sundog: Run) -> None:
    put(folder, 1)
    (folder / "broken.capsule").write_bytes(b"rubbish")
    assert len(sundog("capsule", "list").output.splitlines()) == 2


def test_one_is_copied_into_a_file_with_a_word_about_what_it_holds(
    folder: Path, sundog: Run, tmp_path: Path
) -> None:
    header = put(folder, 5, name="resize\x1b[2J")
    target = tmp_path / "task.capsule"
    done = sundog("capsule", "export", header.task_id[:32], str(target))
    assert done.exit_code == 0, done.output
    assert target.read_bytes() == (folder / "5.capsule").read_bytes()
    assert "It holds the arguments and the environment of the task" in done.output
    assert "\x1b" not in done.output  # the name was chosen by whoever wrote the program


def test_what_has_no_capsule_cannot_be_exported(folder: Path, sundog: Run, tmp_path: Path) -> None:
    done = sundog("capsule", "export", "nothing", str(tmp_path / "x"))
    assert done.exit_code == 1 and "there is no capsule of nothing. See: sundog capsule list" in done.output
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(("typed", "runs"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_a_file_is_opened_only_by_those_who_trust_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, typed: str, runs: bool
) -> None:
    played: list[str] = []
    shown: list[bool] = []

    def play(path: str, header: Header, *, with_pdb: bool, edit: bool, is_shown: bool) -> int:
        played.append(header.name)
        shown.append(is_shown)
        return 0

    monkeypatch.setattr(replay, "play", play)
    put(folder, 1, name="sent")
    file = str(folder / "1.capsule")
    done = CliRunner().invoke(capsule.command, ["open", file], input=typed, standalone_mode=False)
    assert "runs the code that is in it, with your rights" in done.output
    assert played == (["sent"] if runs else [])
    assert ("Nothing was run." in done.output) == (not runs)
    assert done.return_value == (0 if runs else 1)
    CliRunner().invoke(capsule.command, ["open", file, "--yes"])
    assert played[-1] == "sent"
    assert shown == ([True, False] if runs else [False])  # the question has shown the header, --yes has not


def test_a_file_that_is_no_capsule_is_refused_by_its_name(tmp_path: Path, sundog: Run) -> None:
    file = tmp_path / "x.capsule"
    file.write_bytes(b"rubbish")
    with pytest.raises(ValueError, match=r"x.capsule is not a capsule of this version of sundog"):
        CliRunner().invoke(capsule.command, ["open", str(file)], catch_exceptions=False)


def test_a_question_that_nobody_answers_runs_nothing(folder: Path, sundog: Run) -> None:
    put(folder, 1)
    done = sundog("capsule", "open", str(folder / "1.capsule"))
    assert done.exit_code == 1
    assert (
        "the question was not answered, so nothing was run. To run without the question, add --yes"
        in done.output
    )


def test_an_exported_capsule_is_for_its_owner_alone(folder: Path, sundog: Run, tmp_path: Path) -> None:
    header = put(folder, 1)
    file = tmp_path / "x"
    assert sundog("capsule", "export", header.task_id, str(file)).exit_code == 0
    assert file.stat().st_mode & 0o777 == 0o600
    done = sundog("capsule", "export", header.task_id, str(tmp_path / "none" / "x"))
    assert "cannot be written: No such file or directory." in done.output


def test_an_exported_capsule_is_not_written_into_what_lay_under_its_name(
    folder: Path, sundog: Run, tmp_path: Path
) -> None:
    header = put(folder, 1)
    precious = tmp_path / "precious"
    precious.write_text("mine")
    names = [tmp_path / "second-name", tmp_path / "link"]
    os.link(precious, names[0])
    names[1].symlink_to(precious)
    for name in names:
        assert sundog("capsule", "export", header.task_id, str(name)).exit_code == 0
        assert not name.is_symlink() and name.stat().st_size > 4
    assert precious.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir() if ".part" in path.name) == []
