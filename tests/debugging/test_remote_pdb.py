"""pdb at a desk: what it shows, and that leaving lets the code go on."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

from sundog.debugging import channel
from sundog.debugging.desk import PromptInterrupt
from sundog.debugging.remote_pdb import RemotePdb
from tests.debugging.visits import Client, Told, elsewhere


def add(first: int, second: int, debugger: RemotePdb) -> int:
    debugger.set_trace(sys._getframe())
    total = first + second
    return total


def visit(folder: Path, *lines: str) -> tuple[list[int], str]:
    """Run `add` in a thread, and type at its prompt."""
    told = Told()
    found: list[int] = []
    desk = told.desk(folder)
    debugger = RemotePdb(lambda *_: desk, lambda: False)
    running = elsewhere(lambda: found.append(add(1, 2, debugger)))
    client = Client(folder, *lines)
    running.join(120)
    return found, client.done()


def test_names_can_be_seen_and_changed_and_leaving_lets_the_code_go_on(tmp_path: Path) -> None:
    found, shown = visit(tmp_path, "p first, second", "second = 40", "quit")
    assert "(1, 2)" in shown and "The task continues." in shown
    assert found == [41]


def test_statements_of_several_lines_interact_and_what_is_refused(tmp_path: Path) -> None:
    lines = ["for n in range(2):", "    print('n', n + first)", "", "interact", "first * 50", "", "run", "q"]
    told = Told()
    desk = told.desk(tmp_path)
    found: list[int] = []
    debugger = RemotePdb(lambda *_: desk, lambda: False)
    running = elsewhere(lambda: found.append(add(1, 2, debugger)))
    client = Client(tmp_path, *lines[:5], "raise EOFError")
    client.done()
    shown = client.shown
    assert "...   " in shown and "n 1" in shown and "n 2" in shown and ">>> 50" in shown
    again = Client(tmp_path, "exit()")  # the client left in `interact`; another one ends it
    again.done()
    last = Client(tmp_path, "run", "q")
    running.join(120)
    assert "cannot be started anew" in last.done() and found == [3]


def test_post_mortem_stands_where_the_exception_came_from(tmp_path: Path) -> None:
    def fail(text: str) -> None:
        letters = list(text)
        raise ValueError(len(letters))

    told = Told()
    desk = told.desk(tmp_path)
    debugger = RemotePdb(lambda *_: desk, lambda: False)

    def run() -> None:
        try:
            fail("abc")
        except ValueError as error:
            assert error.__traceback__ is not None
            debugger.post_mortem(error, "ValueError: 3")

    running = elsewhere(run)
    shown = Client(tmp_path, "p letters", "c")
    running.join(120)
    assert "['a', 'b', 'c']" in shown.done() and "fails with its exception" in shown.shown
    assert told.pauses[0].why == "breakpoint()"


def test_a_debugger_within_the_debugger_leads_back_to_the_prompt_at_an_exception(tmp_path: Path) -> None:
    told = Told()
    desk = told.desk(tmp_path)
    debugger = RemotePdb(lambda *_: desk, lambda: False)
    tracers: list[object] = []

    def run() -> None:
        try:
            raise ValueError("no")
        except ValueError as error:
            debugger.post_mortem(error, "ValueError: no")
        tracers.append(sys.gettrace())

    running = elsewhere(run)
    shown = Client(tmp_path, "debug 1 + 1", "q", "p 6 * 7", "q").done()
    running.join(120)
    assert "LEAVING RECURSIVE DEBUGGER\n(Pdb) 42\n" in shown and "The task continues" in shown
    assert tracers == [None]


def test_steps_keep_the_reason_of_their_stop_until_breakpoint_is_met(tmp_path: Path) -> None:
    told = Told()
    desk = told.desk(tmp_path)
    debugger = RemotePdb(lambda *_: desk, lambda: True)
    running = elsewhere(lambda: add(add(1, 2, debugger), 3, debugger))
    client = Client(tmp_path, "debugger._why = 'sundog break f.py:1'", "n", "n", "c", "q")
    running.join(120)
    client.done()
    # Of two steps, and of the second breakpoint().
    assert [each.why for each in told.pauses[-3:]] == ["sundog break f.py:1"] * 2 + ["breakpoint()"]


def test_words_are_completed_from_commands_and_names(tmp_path: Path) -> None:
    debugger = RemotePdb(lambda *_: Told().desk(tmp_path), lambda: False)
    frame = sys._getframe()
    debugger.curframe = frame
    debugger.curframe_locals = frame.f_locals
    assert "frame" in debugger.complete_line("fra", "p fra", 2, 5)
    assert "continue" in debugger.complete_line("cont", "cont", 0, 4)


def test_what_was_assigned_at_the_prompt_is_there_in_interact_and_after_it(tmp_path: Path) -> None:
    lines = ["first = 40", "interact", "first + 1000", "raise EOFError"]
    told = Told()
    desk = told.desk(tmp_path)
    found: list[int] = []
    debugger = RemotePdb(lambda *_: desk, lambda: False)
    running = elsewhere(lambda: found.append(add(1, 2, debugger)))
    assert ">>> 1040\n" in Client(tmp_path, *lines).done()
    Client(tmp_path, "exit()").done()
    Client(tmp_path, "q").done()
    running.join(120)
    assert found == [42]


def test_a_loop_in_one_line_is_a_whole_statement(tmp_path: Path) -> None:
    found, shown = visit(tmp_path, "for n in range(2): print('n', n + first)", "q")
    assert "n 1\nn 2\n" in shown and "...   " not in shown and found == [3]


def test_ctrl_c_at_what_was_typed_leads_back_to_the_prompt(tmp_path: Path) -> None:
    def press(ident: int, _is_on: object) -> None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(PromptInterrupt))

    told = Told()
    desk = told.desk(tmp_path)
    desk.interrupt = press
    found: list[int] = []
    debugger = RemotePdb(lambda *_: desk, lambda: False)
    running = elsewhere(lambda: found.append(add(1, 2, debugger)))
    client = channel.connect(str(tmp_path), "1")
    client.receive()

    def say(text: str, *, press: bool = False) -> str:
        client.send("line", text=text)
        if press:
            client.send("interrupt")
        return str((client.receive() or {})["text"])

    assert "KeyboardInterrupt" in say("while True: pass", press=True)
    assert "KeyboardInterrupt" in say("p [1 for _ in iter(int, 1)]", press=True)
    assert say("p first") == "1\n"
    assert "*interactive*" in say("interact")
    say("while first: pass")
    shown = say("", press=True)
    assert "KeyboardInterrupt" in shown and "Traceback" not in shown
    client.close()
    Client(tmp_path, "exit()").done()
    Client(tmp_path, "q").done()
    running.join(120)
    assert found == [3]
