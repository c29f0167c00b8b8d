"""What is shown of a capsule before it is opened."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner

from sundog.capsules.replay import Bound, Prepared
from sundog.capsules.rows import Outcome, write
from sundog.cli import capsule, exits, replay
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


def test_the_traceback_of_a_coroutine_begins_in_the_code_of_the_user() -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError

    with pytest.raises(ValueError) as caught:
        Prepared(fail, lambda: Bound(fail, (), {})).call()
    trace = replay._users_trace(caught.value)
    assert trace is not None and trace.tb_frame.f_code.co_name == "fail" and trace.tb_next is None


def test_an_editor_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", "/nowhere/editor --wait")
    source = tmp_path / "f.py"
    source.write_text("")
    with pytest.raises(
        exits.CommandError, match=r"\(/nowhere/editor --wait\) cannot be started: No such file"
    ):
        replay._edit(HEADER._replace(source=f"{source}:1"))
