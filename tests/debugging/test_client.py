"""The terminal's end of a visit."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

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
        theirs.send("end", text="The task continues.\n")

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
    assert capsys.readouterr().out == "> f.py(3)\n(Pdb) 3\n(Pdb) \nThe task continues.\n"
    assert (tmp_path / "history").stat().st_mode & 0o777 == 0o600
    theirs.close()
    assert client.visit(ours, str(tmp_path / "history")) == "gone"
    ours.close()


class Keys:
    """A channel whose task says these things; None is Ctrl-C, an exception ends the test."""

    def __init__(self, *said: dict[str, str] | None) -> None:
        self.said = list(said)
        self.sent: list[Any] = []

    def await_message(self) -> None:
        if self.said and self.said[0] is None:
            self.said.pop(0)
            raise KeyboardInterrupt

    def receive(self) -> Any:
        return self.said.pop(0) if self.said else None

    def send(self, kind: str, **fields: object) -> None:
        self.sent.append((kind, fields))


def visited(tmp_path: Path, *said: dict[str, str] | None) -> tuple[str, list[Any]]:
    keys = Keys(*said)
    return client.visit(cast("DebugChannel", keys), str(tmp_path / "history")), keys.sent


ASK = {"kind": "ask", "text": "", "prompt": "(Pdb) "}
MORE = {"kind": "ask", "text": "", "prompt": "...   "}
END = {"kind": "end", "text": ""}


def test_ctrl_c_interrupts_what_was_typed_and_the_second_one_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("builtins.input", lambda _prompt: "while True: pass")
    line = ("line", {"text": "while True: pass"})
    assert visited(tmp_path, ASK, None, ASK, END) == ("end", [line, ("interrupt", {}), line])
    assert visited(tmp_path, ASK, None, None) == ("stuck", [line, ("interrupt", {})])


def test_ctrl_c_leaves_a_task_that_runs_and_its_end_is_no_surprise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert visited(tmp_path, {"kind": "running"}, None) == ("left", [])
    assert visited(tmp_path, {"kind": "running"}) == ("end", [])
    assert capsys.readouterr().out == "\nDetached. The task continues.\nThe task has ended.\n"


def test_ctrl_c_at_the_prompt_drops_the_line_and_in_a_longer_statement_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys: Iterator[str | None] = iter([None, "p 1", None])

    def typed(_prompt: str) -> str:
        found = next(keys)
        if found is None:
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr("builtins.input", typed)
    _, sent = visited(tmp_path, ASK, MORE, END)
    assert sent == [("line", {"text": "p 1"}), ("line", {"text": "", "dropped": True})]


def test_ctrl_c_between_the_two_waits_interrupts_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    channel = Keys({"kind": "ask", "prompt": "(Pdb) "}, {"kind": "end", "text": ""})
    sent = channel.send

    def send(kind: str, **fields: object) -> None:
        sent(kind, **fields)
        if kind == "line":
            signal.raise_signal(signal.SIGINT)  # the line is on its way, and no wait has begun

    channel.send = send  # type: ignore[method-assign]
    monkeypatch.setattr("builtins.input", lambda _prompt: "while True: pass")
    before = signal.getsignal(signal.SIGINT)
    assert client.visit(cast("DebugChannel", channel), str(tmp_path / "history")) == "end"
    assert [kind for kind, _ in channel.sent] == ["line", "interrupt"]
    assert "Interrupted" in capsys.readouterr().out
    assert signal.getsignal(signal.SIGINT) is before
