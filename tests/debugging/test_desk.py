"""A paused task and the client at its prompt."""

from __future__ import annotations

from pathlib import Path

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
    desk.close("The task goes on.")
    assert second.done() == "> here\n(Pdb) 3\nThe task goes on.\n"
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
