"""`sundog break`: which places, expressions and numbers are taken, and what is asked of the node."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import Result

from sundog.util.state import source
from sundog.wire.pauses import Trigger
from sundog.wire.requests import AddTrigger, ClearTriggers, ListTriggers
from tests.cli.fakes import FakeSession

Run = Callable[..., Result]
parse_place = importlib.import_module("sundog.cli.break").parse_place  # the module's name is a keyword

PROGRAM = "import os\n\n# a comment\ndef f(x):\n    return x\n"


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    fake = FakeSession([7])
    monkeypatch.setattr(source, "find_source", lambda _address: fake)
    return fake


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "prog.py"
    path.write_text(PROGRAM)
    return str(path)


def test_a_breakpoint_is_asked_for_with_all_its_conditions(
    session: FakeSession, sundog: Run, program: str
) -> None:
    done = sundog("break", f"{program}:5", "--when", "x > 3", "--attempt", "2")
    assert done.exit_code == 0, done.output
    assert session.asked == [AddTrigger(Trigger(0, program, 5, "x > 3", "", 2))]
    assert "Breakpoint 7 is set" in done.output and "sundog debug" in done.output


@pytest.mark.parametrize(("line", "is_told"), [(1, True), (4, True), (5, False)])
def test_a_line_that_no_task_runs_is_told_of(
    session: FakeSession, sundog: Run, program: str, line: int, is_told: bool
) -> None:
    done = sundog("break", f"{program}:{line}")
    assert done.exit_code == 0
    assert (f"Line {line} is in no function" in done.output) is is_told


def test_a_file_that_is_here_is_known_by_its_whole_path(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(program).parent)
    assert parse_place("prog.py:5") == (program, 5)
    assert parse_place("elsewhere.py:5") == ("elsewhere.py", 5)  # a part of a path that a worker may have


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("f.py:x", "Write FILE:LINE, where LINE is a number"),
        ("f.py:²", "Write FILE:LINE, where LINE is a number"),
        ("f.py:-1", "Write FILE:LINE, where LINE is a number"),
        ("/no/such/file.py:3", "there is no file /no/such/file.py"),
    ],
)
def test_a_place_that_is_none_is_refused(place: str, words: str) -> None:
    with pytest.raises(click.UsageError, match=words):
        parse_place(place)


def test_a_line_without_code_is_refused_and_the_next_with_code_is_named(program: str) -> None:
    with pytest.raises(
        click.UsageError, match=r"line 3 of .* holds no code that runs. The next line that does is 4"
    ):
        parse_place(f"{program}:3")
    with pytest.raises(click.UsageError, match=r"line 99 of .* holds no code that runs.$"):
        parse_place(f"{program}:99")


def test_the_lines_of_a_file_that_is_not_python_are_not_judged(tmp_path: Path) -> None:
    path = tmp_path / "template.txt"
    path.write_text("this is (not python\n")
    assert parse_place(f"{path}:1") == (str(path), 1)


def test_an_exception_needs_no_place(session: FakeSession, sundog: Run) -> None:
    assert sundog("break", "--on-exception", "ValueError").exit_code == 0
    assert session.asked == [AddTrigger(Trigger(0, "", 0, "", "ValueError", 0))]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "give a place: FILE:LINE, or --on-exception CLASS"),
        (("f.py",), "give a place: FILE:LINE, or --on-exception CLASS"),
        (("f.py:3", "--when", "x >"), "is not an expression"),
        (("f.py:3", "--when", "x = 3"), "is not an expression"),
        (("--on-exception", "not a name"), "takes the name of a class"),
        (("--on-exception", "errors.", "--attempt", "2"), "takes the name of a class"),
        (("f.py:3", "--attempt", "0"), "--attempt"),
        (("--clear", "one"), "--clear takes the numbers of `sundog break --list`, not 'one'"),
        (("--clear", "1,"), "--clear takes the numbers"),
        (("--clear", "¹"), "--clear takes the numbers"),
    ],
)
def test_a_wrong_command_line_is_refused_before_the_node_is_asked(
    session: FakeSession, sundog: Run, arguments: tuple[str, ...], words: str
) -> None:
    done = sundog("break", *arguments)
    assert done.exit_code == 2 and words in done.output
    assert session.asked == []


def test_breakpoints_are_removed_by_their_numbers_or_all_at_once(session: FakeSession, sundog: Run) -> None:
    session.answers = [[1, 2], [3], []]
    assert sundog("break", "--clear", "1,2").output == "Removed: 1, 2.\n"
    assert sundog("break", "--clear").output == "Removed: 3.\n"
    assert "Nothing was removed. See: sundog break --list" in sundog("break", "--clear").output
    assert session.asked == [ClearTriggers([1, 2]), ClearTriggers([]), ClearTriggers([])]


def test_breakpoints_are_listed_a_line_each(session: FakeSession, sundog: Run) -> None:
    session.answers = [[Trigger(1, "/p.py", 4, "x > 3"), Trigger(12, exception="KeyError", attempt=2)]]
    lines = sundog("break", "--list").output.splitlines()
    assert session.asked == [ListTriggers()]
    assert lines[0].startswith("  1  /p.py:4") and "when x > 3" in lines[0]
    assert lines[1].startswith(" 12  anywhere") and "on KeyError" in lines[1]


def test_a_file_that_is_not_here_is_told_of(session: FakeSession, sundog: Run) -> None:
    output = sundog("break", "nosuch.py:3").output
    assert "There is no nosuch.py in this folder: the breakpoint holds in every file" in output


@pytest.mark.parametrize("cell", ["In[6]", "<ipython-input-6-066dca5cfbf4>", "/tmp/ipykernel_71/2204.py"])
def test_a_cell_of_a_notebook_is_a_place_that_is_in_no_file(
    session: FakeSession, sundog: Run, cell: str
) -> None:
    done = sundog("break", f"{cell}:2")
    assert done.exit_code == 0 and "in this folder" not in done.output
    assert session.asked == [AddTrigger(Trigger(0, cell, 2, "", "", 0))]
