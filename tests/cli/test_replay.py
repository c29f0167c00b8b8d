"""What is shown of a capsule before it is opened."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from sundog.capsules.rows import Outcome, write
from sundog.cli import capsule
from tests.capsules.made import HEADER, contents


def test_a_capsule_of_a_stranger_cannot_hide_the_question_before_it_is_opened(tmp_path: Path) -> None:
    file = tmp_path / "sent.capsule"
    hidden = "\x1b[2J\x1b[8m\nOpened, all is well"
    header = HEADER._replace(
        name=f"f{hidden}", session=hidden, task_id=hidden, outcome=Outcome("E", f"no\n\x1b[2J{hidden}")
    )
    write(str(file), header, contents())
    done = CliRunner().invoke(capsule.command, ["open", str(file)], input="n\n")
    assert "\x1b" not in done.output and "Do you trust the person who made it?" in done.output
    assert done.output.count("\nOpened, all is well") == 1  # a line of the error's text, which may have lines
