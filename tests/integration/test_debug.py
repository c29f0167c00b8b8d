"""pdb at tasks, driven through real terminals: breakpoints, post-mortem, breakpoints from outside, editors."""

from __future__ import annotations

import json
import os
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
from tests.integration.editors import Editor
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
        second.see("continues")
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


ONE_BY_ONE = """
    import sys
    import sundog as ray
    ray.init(num_cpus=1)

    def helper(number):
        if number:
            breakpoint()
        doubled = number * 2
        return doubled

    @ray.remote
    def f(number):
        return helper(number) + 1, sys.gettrace() is None

    for line in sys.stdin:  # the next task begins when the test says so
        print(*ray.get(f.remote(int(line))), flush=True)
"""


class Tasks:
    """The tasks of `ONE_BY_ONE`, all of one worker."""

    def __init__(self, driver: subprocess.Popen[str], folder: Path) -> None:
        assert driver.stdin is not None and driver.stdout is not None
        self._stdin, self._stdout = driver.stdin, driver.stdout
        self._line = line_of(folder, "doubled =")

    def start(self, number: int) -> None:
        await_true(lambda: not paused(), "the end of the pause before")
        self._start(number)
        await_true(paused, "a pause")

    def _start(self, number: int) -> None:
        self._stdin.write(f"{number}\n")
        self._stdin.flush()

    def result(self) -> tuple[int, bool]:
        """What a task gave, and whether it ended untraced."""
        number, is_untraced = self._stdout.readline().split()
        return int(number), is_untraced == "True"

    def await_untraced(self) -> None:
        """The worker has noticed that no editor is attached, and tasks run at their full speed again."""

        def is_untraced() -> bool:
            self._start(0)
            return self.result()[1]

        await_true(is_untraced, "a task without a tracer")

    def see_in(self, editor: Editor, number: int) -> None:
        """One task stops in an editor, which lets it go on."""
        function, line, names = editor.see_stop()
        assert (function, line, names["number"]) == ("helper", self._line, str(number))
        absolute = f"sundog.get(sundog.remote(abs).options(num_cpus=0).remote(-{number}))"
        assert editor.evaluate(absolute.replace("sundog", "__import__('sundog')")) == f"{number}"
        editor.let_go_on()
        assert self.result()[0] == 2 * number + 1

    def start_in(self, editor: Editor, number: int) -> None:
        """One more task begins and stops in the editor that is still attached."""
        self._start(number)
        self.see_in(editor, number)

    def see_in_pdb(self, number: int) -> None:
        """One task stands at pdb's prompt, can be stepped in, and goes on."""
        with terminal("debug") as at:
            assert "doubled = number * 2" in at.see(PROMPT)
            assert f"{number}" in at.say("p number")
            assert "return doubled" in at.say("next")
            assert f"{2 * number}" in at.say("p doubled")
            at.type("continue")
            at.see("The task has ended")
        assert self.result() == (2 * number + 1, True)


@pytest.mark.parametrize("chosen", ["by a setting", "by the command"])
def test_tasks_after_a_visit_of_an_editor_stop_again(tmp_path: Path, chosen: str) -> None:
    by_setting = chosen == "by a setting"
    with program(tmp_path, ONE_BY_ONE, **({"SUNDOG_DEBUGGER": "debugpy"} if by_setting else {})) as driver:
        tasks = Tasks(driver, tmp_path)
        for number in range(1, 7, 3):
            tasks.start(number)
            editor = Editor(_port_for_editors())
            editor.attach()
            tasks.see_in(editor, number)
            tasks.start_in(editor, number + 1)  # it stays attached
            editor.leave()
            tasks.await_untraced()
            if not by_setting:
                tasks.start(number + 2)
                tasks.see_in_pdb(number + 2)
        if not by_setting:  # breakpoints from outside are met, too
            sundog("break", f"{tmp_path}/program.py:{line_of(tmp_path, 'return doubled')}")
            tasks.start(0)
            with terminal("debug") as at:
                assert "return doubled" in at.see(PROMPT)
                at.type("q")
                at.end()
            assert tasks.result()[0] == 1
    assert "WARNING" not in driver.errors and "Traceback" not in driver.errors, driver.errors


@pytest.mark.parametrize("chosen", ["by a setting", "by the command"])
def test_an_editor_that_is_killed_leaves_tasks_that_go_on_and_stop_again(tmp_path: Path, chosen: str) -> None:
    by_setting = chosen == "by a setting"
    with program(tmp_path, ONE_BY_ONE, **({"SUNDOG_DEBUGGER": "debugpy"} if by_setting else {})) as driver:
        tasks = Tasks(driver, tmp_path)
        tasks.start(1)
        editor = Editor(_port_for_editors())
        editor.attach()
        editor.see_stop()
        editor.vanish()  # while the task stands
        assert tasks.result()[0] == 3
        tasks.start(2)
        editor = Editor(_port_for_editors())
        editor.attach()
        tasks.see_in(editor, 2)
        editor.vanish()  # while nothing stands
        tasks.await_untraced()
        tasks.start(3)
        if by_setting:
            _, _, names = Editor(_port_for_editors()).stop_place()
            assert names["number"] == "3" and tasks.result()[0] == 7
        else:
            tasks.see_in_pdb(3)


HARD_STOPS = """
    import sys
    import sundog as ray
    ray.init(num_cpus=1)

    @ray.remote
    def f():
        breakpoint()
        return 1

    @ray.remote
    class A:
        def call(self, number):
            breakpoint()
            return number

    def outcome(ref):
        try:
            return ray.get(ref)
        except Exception as error:
            return type(error).__name__

    for _ in range(2):
        stopped = f.remote()
        sys.stdin.readline()
        ray.cancel(stopped)
        print(outcome(stopped), flush=True)
    actor = A.options(max_concurrency=2).remote()
    print(outcome(actor.call.remote(7)), flush=True)
"""


def test_a_task_that_waits_for_an_editor_or_stands_in_it_is_cancelled_and_a_threaded_actor_stops(
    tmp_path: Path,
) -> None:
    with program(tmp_path, HARD_STOPS, SUNDOG_DEBUGGER="debugpy") as driver:
        assert driver.stdin is not None and driver.stdout is not None
        await_true(paused, "a pause")
        driver.stdin.write("\n")
        driver.stdin.flush()
        assert driver.stdout.readline() == "RayTaskError(TaskCancelledError)\n"
        await_true(lambda: [each.number for each in paused()] == [2], "the next pause")
        editor = Editor(_port_for_editors())
        editor.attach()
        assert editor.see_stop()[0] == "f"
        driver.stdin.write("\n")
        driver.stdin.flush()
        assert driver.stdout.readline() == "RayTaskError(TaskCancelledError)\n"
        editor.leave()
        await_true(lambda: [each.name for each in paused()] == ["A.call"], "the pause of the actor")
        assert Editor(_port_for_editors()).stop_place()[2]["number"] == "7"
        assert driver.stdout.readline() == "7\n"


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
