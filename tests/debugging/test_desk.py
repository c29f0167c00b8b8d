"""A paused task and the client at its prompt."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from sundog.debugging import channel
from sundog.debugging.desk import PromptInterrupt
from tests.debugging.visits import Client, Told, elsewhere


class FakeDebugger:
    def __init__(self, write: object) -> None:
        self._write = write

    def complete_line(self, text: str, line: str, begin: int, end: int) -> list[str]:
        return [text + "gth"]

    def show_place(self) -> None:
        self._write("> here\n")  # type: ignore[operator]

    def hand_over(self) -> None:
        raise AssertionError


def test_a_client_that_vanishes_makes_room_for_the_next_which_is_shown_the_place(tmp_path: Path) -> None:
    told = Told()
    desk = told.desk(tmp_path)
    desk.debugger = FakeDebugger(desk.write)
    read: list[str] = []
    desk.write("> f.py(3)\n(Pdb) ")
    reading = elsewhere(lambda: read.append(desk.readline()))
    first = Client(tmp_path)  # leaves without a word
    assert first.done() == "> f.py(3)\n(Pdb) "
    second = Client(tmp_path, "p x")
    reading.join(120)
    assert read == ["p x\n"]
    desk.write("3\n")
    desk.close("The task continues.")
    assert second.done() == "> here\n(Pdb) 3\nThe task continues.\n"
    assert [bool(each.attached) for each in told.pauses] == [False, True, False, True]
    assert told.ended == ["1"] and not (tmp_path / "debug" / "1.sock").exists()


def test_a_task_that_goes_on_keeps_its_client_until_it_ends(tmp_path: Path) -> None:
    told = Told()
    desk = told.desk(tmp_path)
    desk.write("(Pdb) ")
    read: list[str] = []
    reading = elsewhere(lambda: read.append(desk.readline()))
    client = Client(tmp_path, "c", "c")
    reading.join(120)
    running = [True]
    desk.go_on(lambda: running[0])
    assert told.ended == ["1"] and desk.is_open
    assert desk.stop("/f.py", 9, "f", "breakpoint()") and told.pauses[-1].line == 9
    desk.write("(Pdb) ")
    assert desk.readline() == "c\n"
    desk.go_on(lambda: running[0])
    running[0] = False
    assert client.done().endswith("The task has ended.\n")
    assert not desk.stop("/f.py", 9, "f", "breakpoint()"), "it is closed: another desk is needed"


def test_ctrl_c_interrupts_what_was_typed_and_nothing_else(tmp_path: Path) -> None:
    desk = Told().desk(tmp_path)
    desk.is_at_prompt = True
    interrupted: list[tuple[int, bool]] = []
    came = threading.Event()

    def interrupt(ident: int, is_on: object) -> None:
        interrupted.append((ident, is_on()))  # type: ignore[operator]
        came.set()

    desk.interrupt = interrupt
    client = channel.connect(str(tmp_path), "1")
    desk.write("(Pdb) ")
    client.send("line", text="while True: pass")
    assert desk.readline() == "while True: pass\n"
    client.receive()
    client.send("interrupt")
    assert came.wait(120) and interrupted == [(threading.get_ident(), True)]
    client.send("line", text="p 1")
    assert desk.readline() == "p 1\n", "the next line is not taken for a key"
    client.close()
    desk.close("")


def test_ctrl_c_in_a_statement_of_several_lines_drops_it(tmp_path: Path) -> None:
    desk = Told().desk(tmp_path)
    client = channel.connect(str(tmp_path), "1")
    client.send("line", text="", dropped=True)
    desk.write("...   ")
    with pytest.raises(PromptInterrupt):
        desk.readline()
    client.close()
    desk.close("")
