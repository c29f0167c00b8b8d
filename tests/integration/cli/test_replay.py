"""Tasks that failed, run again in a terminal: after the session has ended, in pdb, edited, from a file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import pytest

from tests.integration.terminals import PROMPT, terminal

PROGRAM = """
    import asyncio, os, random, sys
    import numpy as np
    import sundog as ray

    def divide(total, parts):
        share = total / parts
        return share

    @ray.remote(max_retries=0)
    def split(array, words, *, parts, ref=None):
        words.pop()
        inner = ray.get(ref[0])
        return divide(int(array.sum()) + inner, parts)

    @ray.remote
    class Counter:
        def __init__(self, start):
            self.count = start
        def add(self, number):
            self.count += number
            if number > 2:
                raise ValueError(f"at {self.count}")
            return self.count

    @ray.remote
    class Looped:
        async def call(self, number):
            await asyncio.sleep(0)
            return {}[number]

    @ray.remote(capsule=True)
    def draw():
        return [random.random() for _ in range(3)]

    @ray.remote
    def fine(number):
        return number * 2

    def outcome(ref):
        try:
            return ray.get(ref)
        except Exception as error:
            return type(error).__name__

    if __name__ == "__main__":
        os.environ["MY_API_KEY"] = "hush"
        ray.init(num_cpus=1)
        big = ray.put(np.ones(200_000))
        print(outcome(split.remote(big, ["a", "b"], parts=0, ref=[ray.put(5)])))
        for wanted in (False, True):
            counter = Counter.options(capsule=wanted).remote(10)
            print([outcome(counter.add.remote(number)) for number in (1, 2, 3)])
        print(outcome(Looped.remote().call.remote(7)))
        ray.get(draw.remote())
        import subprocess
        subprocess.run([sys.executable, "-m", "sundog.cli", "capture", "fine"], check=True)
        ray.get(fine.remote(21))
"""


def sundog(*args: str, stdin: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sundog.cli", *args],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **environ},
    )


@pytest.fixture
def ended(tmp_path: Path, leak_check: Path) -> Path:
    """A session that has ended, in which tasks failed; gives the program's file."""
    path = tmp_path / "program.py"
    path.write_text(dedent(PROGRAM))
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return path


def test_failed_tasks_of_an_ended_session_run_again(ended: Path, tmp_path: Path) -> None:
    listed = sundog("capsule", "list").stdout
    assert all(name in listed for name in ("split", "Counter.add", "Looped.call", "draw", "fine")), listed

    with terminal("replay", "split", "--pdb") as at:
        before = at.see(PROMPT)
        assert "raised ZeroDivisionError" in before and "share = total / parts" in before
        assert "200005" in at.say("p total")
        assert "return divide(" in at.say("up")
        assert "['a']" in at.say("p words"), "as the task left them: the last one was taken"
        assert "200000" in at.say("p array.size") and "5" in at.say("p inner")
        at.type("q")
        assert "The same outcome" in at.end()

    anew = sundog("replay", "Counter.add", stdin="")
    assert "The same outcome: it raised ValueError: at 16" in anew.stdout, anew.stdout + anew.stderr
    assert "constructed anew" not in anew.stdout, "the newest has the state before the call"
    assert "KeyError" in sundog("replay", "Looped.call").stdout
    again = sundog("replay", "draw").stdout
    assert "The same outcome: it returned [0." in again, again
    assert "The same outcome: it returned 42" in sundog("replay", "fine").stdout

    file = tmp_path / "sent.capsule"
    assert sundog("capsule", "export", "split", str(file)).returncode == 0
    assert b"hush" not in file.read_bytes()
    refused = sundog("capsule", "open", str(file), stdin="n\n")
    assert refused.returncode == 1 and "Do you trust" in refused.stdout and "─" not in refused.stdout
    assert "The same outcome" in sundog("capsule", "open", str(file), stdin="y\n").stdout

    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/total \\/ parts/total/' \"$1\"\n")
    editor.chmod(0o755)
    mended = sundog("replay", "split", "--edit", EDITOR=str(editor), VISUAL="")
    assert "Another outcome" in mended.stdout and "Now it returned 200005" in mended.stdout, (
        mended.stdout + mended.stderr
    )
    assert mended.returncode == 1
    missing = sundog("replay", "nothing")
    assert missing.returncode == 1 and "there is no capsule of nothing" in missing.stderr


ODD_PROGRAM = """
    import os, sys, threading, time
    import sundog as ray

    class Thing: ...

    @ray.remote
    def inner():
        raise ValueError(Thing())

    @ray.remote
    def outer():
        return ray.get(inner.remote())

    @ray.remote(num_returns=2)
    def three(): return [1, 2, 3]

    @ray.remote
    def lock(): return threading.Lock()

    @ray.remote(max_retries=0)
    def leaves(): sys.exit(3)

    @ray.remote
    def slow():
        print("slow runs", flush=True)
        time.sleep(600)

    @ray.remote(max_retries=0, capsule=True)
    def dies(): os._exit(9)

    @ray.remote(max_retries=2, retry_exceptions=True)
    def tries(): raise OSError("again")

    @ray.remote
    class Reader:
        def __init__(self, path):
            self.path = open(path).name
        def fail(self):
            os.unlink(self.path)
            raise ValueError("read")

    def outcome(ref):
        try:
            return ray.get(ref)
        except Exception as error:
            return type(error).__name__

    if __name__ == "__main__":
        ray.init(num_cpus=1)
        open("read", "w").close()
        refs = [outer.remote(), three.remote()[0], lock.remote(), leaves.remote(), slow.options(timeout_s=0.1).remote()]
        refs += [dies.remote(), tries.remote(), Reader.remote(os.path.abspath("read")).fail.remote()]
        print([outcome(ref) for ref in refs])
"""


def test_every_way_to_fail_leaves_a_capsule_and_fails_alike_again(tmp_path: Path, leak_check: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(dedent(ODD_PROGRAM))
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    for name in ("outer", "three", "lock", "leaves"):
        again = sundog("replay", name)
        assert again.returncode == 0 and "The same outcome: it raised" in again.stdout, (
            again.stdout + again.stderr
        )
    first = sundog("replay", "tries", "--attempt", "1").stdout
    assert "attempt 1," in first and "attempt 3," in sundog("replay", "tries").stdout
    assert "of attempt 4 of tries" in sundog("replay", "tries", "--attempt", "4").stderr
    died = sundog("replay", "dies")
    assert died.returncode == 9 and "Then it did not end: its process died" in died.stdout
    anew = sundog("replay", "Reader.fail")
    assert anew.returncode == 1 and "in __init__" in anew.stderr and "Traceback" in anew.stderr
    assert "Now it raised FileNotFoundError" in anew.stdout
    with terminal("replay", "slow", "--pdb") as at:
        at.see("TaskTimeoutError: it ran longer than timeout_s=0.1")
        at.see("slow runs")
        at.child.send("\x03")
        assert "slow()" in at.see(PROMPT)
        at.type("q")
        assert "Another outcome" in at.end()


RAY_PROGRAM = """
    import ray
    import own

    @ray.remote
    def divide(parts):
        return 10 // parts

    if __name__ == "__main__":
        ray.init(num_cpus=1)
        for ref in (divide.remote(0), ray.remote(own.fail).remote()):
            try:
                ray.get(ref)
            except (ZeroDivisionError, LookupError):
                pass
"""


def test_tasks_of_a_program_that_imports_ray_run_again(tmp_path: Path, leak_check: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(dedent(RAY_PROGRAM))
    (tmp_path / "own.py").write_text("import ray.util\ndef fail():\n    raise LookupError(ray.__name__)\n")
    done = sundog("run", str(path))
    assert done.returncode == 0, done.stderr
    again = sundog("replay", "fail")
    assert "The same outcome: it raised LookupError: sundog" in again.stdout, again.stderr
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/10 .. parts/parts/' \"$1\"\n")
    editor.chmod(0o755)
    mended = sundog("replay", "divide", "--edit", EDITOR=str(editor), VISUAL="")
    assert "Now it returned 0" in mended.stdout, mended.stdout + mended.stderr


def test_a_name_that_no_task_has_is_captured_and_told_of(ray: ModuleType) -> None:
    @ray.remote
    def resize(size: int) -> int:
        return size

    assert ray.get(resize.remote(1)) == 1
    known, misspelt = sundog("capture", "resize"), sundog("capture", "resise")
    assert (known.returncode, known.stderr) == (0, "")
    assert misspelt.returncode == 0 and misspelt.stdout == "Every run leaves a capsule: resise, resize.\n"
    assert "no task of the session is called resise so far. Did you mean resize?" in misspelt.stderr
