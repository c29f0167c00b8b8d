"""The terminal's end of a visit."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from sundog.debugging import client
from sundog.debugging.channel import DebugChannel
from tests.debugging.visits import elsewhere


def test_lines_are_sent_answers_shown_and_kept_for_the_next_visit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    ours, theirs = (DebugChannel(each) for each in socket.socketpair())
    heard: list[Any] = []

    def task() -> None:
        theirs.send("ask", text="> f.py(3)\n", prompt="(Pdb) ")
        heard.append(theirs.receive())
        theirs.send("ask", text="3\n", prompt="(Pdb) ")
        heard.append(theirs.receive())
        theirs.send("end", text="The task goes on.\n")

    answers = iter(["p x"])

    def typed(prompt: str) -> str:
        print(prompt, end="")
        try:
            return next(answers)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", typed)
    thread = elsewhere(task)
    assert client.visit(ours, str(tmp_path / "history")) == "end"
    thread.join(120)
    assert [message.get("text") for message in heard] == ["p x", ""] and heard[1]["end"]
    assert capsys.readouterr().out == "> f.py(3)\n(Pdb) 3\n(Pdb) \nThe task goes on.\n"
    assert (tmp_path / "history").stat().st_mode & 0o777 == 0o600
    theirs.close()
    assert client.visit(ours, str(tmp_path / "history")) == "gone"
    ours.close()
