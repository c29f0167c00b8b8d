"""pdb at tasks, driven through real terminals: breakpoints, post-mortem, breakpoints from outside, editors."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from sundog.util.state.exception import ServerUnavailable
from sundog.util.state.source import find_source
from sundog.wire.requests import PausedTasks
from tests.integration import strangers
from tests.integration.gates import await_true
from tests.integration.terminals import PROMPT, Terminal, terminal


@contextmanager
def program(folder: Path, text: str, **environ: str) -> Iterator[subprocess.Popen[str]]:
    """A program in a file of its own, `program.py`."""
    path = folder / "program.py"
    path.write_text(dedent(text))
    process = subprocess.Popen(
        [sys.executable, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environ},
    )
    try:
        yield process
        out, errors = process.communicate(timeout=120)
        process.out, process.errors = out, errors
    finally:
        process.kill()
        process.communicate()


def paused() -> list[Any]:
    """The rows of paused tasks, as soon as there is a session to ask."""
    try:
        found: list[Any] = find_source(None).ask(PausedTasks())
    except (ConnectionError, ServerUnavailable):
        return []
    return sorted(found, key=lambda each: int(each.number))


def line_of(folder: Path, text: str) -> int:
    lines = (folder / "program.py").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


TWO_TASKS = """
    import time
    import sundog as ray
    ray.init(num_cpus=2)

    def helper(length):
        breakpoint()
        doubled = length * 2
        return doubled

    @ray.remote(timeout_s=4.0)
    def measure(number):
        many_words = ["a"] * number
        found = helper(len(many_words))
        return found

    ray.get([ray.remote(time.sleep).remote(0.3) for _ in range(2)])  # from here on both workers are there
    print(ray.get([measure.remote(3), measure.remote(10)], timeout=4.0))
"""


def test_two_tasks_stand_at_once_and_each_has_a_full_pdb(tmp_path: Path) -> None:
    from sundog.util import state

    with program(tmp_path, TWO_TASKS) as driver:
        await_true(lambda: len(paused()) == 2, "a pause")
        bounds_end = time.monotonic() + 4.0
        with terminal("debug") as first:
            listed = first.see("Which one")
            assert listed.count(f"{tmp_path}/program.py:{line_of(tmp_path, 'doubled =')}") == 2
            first.type("1")
            first.see(PROMPT)
            assert "doubled = length * 2" in first.say("list") and "Oldest" not in first.say("up")
            assert "['a'" in first.say("p many_words")
            assert "Oldest frame" in first.say("up"), "frames of the worker are not the user's"
            first.say("down")
            first.type("for each in range(2):")
            first.see(r"\.\.\.   ")
            first.type("    print('each', each + length)")
            first.see(r"\.\.\.   ")
            assert "each" in first.say("")
            first.type("interact")
            first.see(">>> ")
            first.type("length + 1000")
            assert "100" in first.see(">>> ")
            first.child.send("\x04")
            first.see(PROMPT)
            first.child.send("p len\t")
            first.see("gth")
            first.say("")
            assert "return doubled" in first.say("next")
            first.type("__import__('time').sleep(1e6)")
            first.see("1e6")
            first.child.send("\x03")
            assert "KeyboardInterrupt" in first.see(PROMPT)
            first.type("while True: pass")
            first.see("pass")
            first.child.send("\x03")
            assert "KeyboardInterrupt" in first.see(PROMPT)
            (row,) = [each for each in state.list_tasks(detail=True) if each.task_id == paused()[0].task_id]
            assert row.is_debugger_paused
            workers = [each.num_paused_threads for each in state.list_workers(detail=True) if each.is_alive]
            assert sorted(filter(None, workers)) == [1, 1]
            await_true(lambda: time.monotonic() > bounds_end, "the end of all bounds but for the pause")
            first.type("continue")
            first.see("The task has ended")
            _leave_second(first)
        driver.wait(120)
    assert driver.out.strip() == "[6, 20]", driver.errors
    told = [line for line in driver.errors.splitlines() if "is paused at" in line]
    assert len(told) == 2 and "Attach with: sundog debug 1" in "".join(told)


def _leave_second(first: Terminal) -> None:
    """The command goes on to the task that is left; a terminal that is killed leaves it for the next."""
    first.see(PROMPT)
    first.child.kill(9)
    (left,) = paused()
    await_true(lambda: not paused()[0].attached, "the detachment")
    with terminal("debug", str(left.number)) as second:
        assert "doubled = length * 2" in second.see(PROMPT)
        second.type("quit")
        second.see("goes on")
        second.end()


MANY_KINDS = """
    import asyncio, sys
    import sundog as ray
    ray.init(num_cpus=2)

    @ray.remote
    class Threaded:
        def call(self, number):
            breakpoint()
            return number + 1

    @ray.remote
    class Looped:
        async def call(self, number):
            await asyncio.sleep(0)
            wrong = number / 0
            return wrong

    @ray.remote(post_mortem=True, max_retries=0)
    def fail(text):
        letters = list(text)
        return int(text)

    def outcome(ref):
        try:
            return ray.get(ref)
        except Exception as error:
            return type(error).__name__

    threaded = Threaded.options(max_concurrency=2).remote()
    print(ray.get([threaded.call.remote(1), threaded.call.remote(2)]), flush=True)
    print(outcome(fail.remote("seven")), flush=True)
    print(outcome(Looped.options(post_mortem=True).remote().call.remote(5)), flush=True)
    fail.options(post_mortem=False).remote("eight")
    threaded.call.remote(7)
    sys.stdin.readline()
"""


def test_actors_of_every_kind_and_exceptions_stop_and_a_driver_waits_for_a_prompt(tmp_path: Path) -> None:
    with program(tmp_path, MANY_KINDS) as driver:
        await_true(lambda: len(paused()) == 2, "a pause")
        for each in paused():
            with terminal("debug", str(each.number)) as at:
                assert "return number + 1" in at.see(PROMPT)
                assert "self" in at.say("args")
                at.type("c")
                at.see("The task has ended")
        await_true(lambda: [each.why[:10] for each in paused()] == ["ValueError"], "the stop at an exception")
        with terminal("debug", str(paused()[0].number)) as at:
            assert "return int(text)" in at.see(PROMPT)
            assert "['s', 'e'" in at.say("p letters")
            at.type("q")
            at.end()
        await_true(lambda: len(paused()) == 1 and "ZeroDivision" in paused()[0].why, "a pause")
        with terminal("debug", str(paused()[0].number)) as at:
            assert "wrong = number / 0" in at.see(PROMPT)
            assert "5" in at.say("p number")
            at.child.send("\x04")
            at.end()
        await_true(lambda: len(paused()) == 1, "a pause")
        with terminal("debug", str(paused()[0].number)) as at:
            at.see(PROMPT)
            driver.stdin.write("\n")  # type: ignore[union-attr]
            driver.stdin.flush()  # type: ignore[union-attr]
            assert "7" in at.say("p number"), "the program has come to its end, and waits"
            assert driver.poll() is None
            at.type("q")
            at.end()
        driver.wait(120)
    assert driver.out.split("\n")[:3] == [
        "[2, 3]",
        "RayTaskError(ValueError)",
        "RayTaskError(ZeroDivisionError)",
    ]


FROM_OUTSIDE = """
    import sys, time
    import sundog as ray
    ray.init(num_cpus=1)
    seen = []

    @ray.remote(max_retries=2, retry_exceptions=True)
    def step(number):
        square = number * number
        time.sleep(0.01)
        if number == 4 and ray.get_runtime_context().get_task_name():
            raise KeyError(number)
        return square

    @ray.remote
    def spin():
        count = 0
        while count < 100_000_000:
            time.sleep(0.01)
            count += 1
            if count == 50_000_001:
                return count

    long = spin.options(num_cpus=0).remote()
    print("up", flush=True)
    sys.stdin.readline()
    print(ray.get([step.remote(number) for number in range(4)]), flush=True)
    try:
        ray.get(step.remote(4))
    except KeyError:
        print("KeyError", flush=True)
    print(ray.get(long), flush=True)
"""


def sundog(*args: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "sundog.cli", *args], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_breakpoints_are_set_in_a_running_session_from_outside(tmp_path: Path) -> None:
    with program(tmp_path, FROM_OUTSIDE) as driver:
        path = str(tmp_path / "program.py")
        assert driver.stdout is not None and driver.stdout.readline() == "up\n"
        assert "is set" in sundog(
            "break", f"{path}:{line_of(tmp_path, 'count += 1')}", "--when", "count >= 3"
        )
        with terminal("debug", "--wait", "120") as at:
            at.see(PROMPT)  # a task that was running already
            at.say("count = 50_000_000")
            sundog("break", "--clear")
            at.type("q")
            at.end()
        assert "is set" in sundog(
            "break", f"{path}:{line_of(tmp_path, 'return square')}", "--when", "square > 3"
        )
        assert "is set" in sundog("break", "--on-exception", "LookupError", "--attempt", "2")
        assert "when square > 3" in sundog("break", "--list")
        driver.stdin.write("\n")  # type: ignore[union-attr]
        driver.stdin.flush()  # type: ignore[union-attr]
        # Each by its number: the command goes on to the next task that stands when it is left, and that comes soon.
        passed = {1}
        for number in (2, 3):
            with terminal("debug", _next_number(passed)) as at:
                assert "return square" in at.see(PROMPT)
                assert str(number) in at.say("p number")
                at.type("q")
                at.end()
        with terminal("debug", _next_number(passed)) as at:
            assert "raise KeyError(number)" in at.see(PROMPT)
            attempt = "import sundog; print('n', sundog.get_runtime_context().get_task_id())"
            assert "n " in at.say(attempt)
            at.type("q")
            at.end()
    assert driver.out.split() == ["[0,", "1,", "4,", "9]", "KeyError", "50000001"]


def _next_number(passed: set[int]) -> str:
    """Wait until a task stands that is none of these, and count it to them."""
    await_true(lambda: any(each.number not in passed for each in paused()), "the next pause")
    (number,) = {each.number for each in paused()} - passed
    passed.add(number)
    return str(number)


class Editor:
    """Speaks the Debug Adapter Protocol, as VS Code does."""

    def __init__(self, port: int) -> None:
        self._sock = socket.create_connection(("127.0.0.1", port), timeout=120)
        self._file = self._sock.makefile("rb")
        self._number = 0

    def ask(self, command: str, **arguments: Any) -> None:
        self._number += 1
        body = json.dumps(
            {"seq": self._number, "type": "request", "command": command, "arguments": arguments}
        ).encode()
        self._sock.sendall(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def hear(self, kind: str) -> Any:
        """The body of the next event, or answer to a command, of this name."""
        while True:
            length = 0
            while (line := self._file.readline().strip()) != b"":
                length = int(line.partition(b":")[2])
            message = json.loads(self._file.read(length))
            if kind in (message.get("event"), message.get("command")):
                assert message.get("success", True), message
                return message.get("body")

    def stop_place(self) -> tuple[str, int, dict[str, str]]:
        """Attach, wait for the stop, and say where it is and with which names; then leave."""
        self.ask("initialize", adapterID="test")
        self.hear("initialize")
        self.ask("attach", justMyCode=False)
        self.hear("initialized")
        self.ask("configurationDone")
        thread = self.hear("stopped")["threadId"]
        self.ask("stackTrace", threadId=thread)
        frame = self.hear("stackTrace")["stackFrames"][0]
        self.ask("scopes", frameId=frame["id"])
        scope = self.hear("scopes")["scopes"][0]["variablesReference"]
        self.ask("variables", variablesReference=scope)
        names = {each["name"]: each["value"] for each in self.hear("variables")["variables"]}
        self.ask("disconnect")
        self.hear("disconnect")
        self._file.close()
        self._sock.close()
        return frame["name"], frame["line"], names


EDITED = """
    import sundog as ray
    ray.init(num_cpus=1)

    @ray.remote
    def f(number):
        breakpoint()
        return number + 1

    @ray.remote(post_mortem=True)
    def fails(number):
        wanted = number * 2
        raise ValueError(wanted)

    print(ray.get(f.remote(41)))
    try:
        ray.get(fails.remote(21))
    except ValueError as error:
        print("failed")
"""


def test_a_session_that_ends_leaves_no_socket_of_a_task_that_nobody_attended(
    tmp_path: Path, leak_check: Path
) -> None:
    text = """
        import sys
        import sundog as ray
        ray.init(num_cpus=1)
        @ray.remote
        def stand():
            breakpoint()
        stand.remote()
        sys.stdin.readline()
    """
    with program(tmp_path, text) as driver:
        await_true(lambda: len(paused()) == 1, "a pause")
        assert len(list(leak_check.glob("session_2*/debug/*.sock"))) == 1
        assert driver.stdin is not None
        driver.stdin.write("\n")
        driver.stdin.flush()
        driver.wait(120)
    assert list(leak_check.glob("session_2*/debug/*.sock")) == []


@pytest.mark.parametrize("chosen", ["by a setting", "by the command"])
def test_an_editor_stops_a_task_by_the_protocol_of_debugpy(tmp_path: Path, chosen: str) -> None:
    environ = {"SUNDOG_DEBUGGER": "debugpy"} if chosen == "by a setting" else {}
    with program(tmp_path, EDITED, **environ) as driver:
        function, line, names = _visit_with_an_editor()
        assert function == "f" and names["number"] == "41"
        assert line in (line_of(tmp_path, "breakpoint()"), line_of(tmp_path, "return number"))
        await_true(lambda: any("ValueError" in each.why for each in paused()), "the pause at the exception")
        function, line, names = _visit_with_an_editor()
        assert (function, line) == ("fails", line_of(tmp_path, "raise ValueError"))
        assert names["wanted"] == "42"
        driver.wait(120)
    assert driver.out.split() == ["42", "failed"], driver.errors


STRANGE_EDITOR = """
    import json, socket, sys
    body = json.dumps({"seq": 1, "type": "request", "command": "initialize", "arguments": {}}).encode()
    with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=120) as sock:
        try:
            sock.sendall(b"Content-Length: %d\\r\\n\\r\\n" % len(body) + body)
            print(sock.recv(1))
        except ConnectionError:
            print(b"")
"""


def test_another_user_is_not_served_at_the_port_for_editors(tmp_path: Path) -> None:
    with strangers.shared_folder(), program(tmp_path, EDITED, SUNDOG_DEBUGGER="debugpy") as driver:
        await_true(lambda: len(paused()) == 1, "a pause")
        found = strangers.run_as(strangers.STRANGER, STRANGE_EDITOR, str(_port_for_editors()))
        assert found.stdout.strip() == "b''"
        assert _visit_with_an_editor()[0] == "f", "this user's editor is"
        await_true(lambda: any("ValueError" in each.why for each in paused()), "the pause at the exception")
        _visit_with_an_editor()
        driver.wait(120)


def _port_for_editors() -> int:
    first, _, configuration = sundog("debug", "--vscode").partition("\n")
    port = int(json.loads(configuration)["connect"]["port"])
    assert f"debugger is listening on 127.0.0.1:{port}" in first
    return port


def _visit_with_an_editor() -> tuple[str, int, dict[str, str]]:
    await_true(lambda: len(paused()) == 1, "a pause")
    return Editor(_port_for_editors()).stop_place()
