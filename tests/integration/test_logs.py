"""What tasks and actors print reaches the driver: named, in order, complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.integration import drivers

LINE = re.compile(r"^\((?P<who>.*?) ?pid=(?P<pid>\d+)\) (?P<text>.*)$")


def shown(program: str) -> tuple[list[tuple[str, int, str]], list[tuple[str, int, str]]]:
    """Run a driver to its end; what it showed of its workers on stdout and on stderr: who, pid, text."""
    # Lines that differ only in numbers are folded by default if they come at about the same time.
    with drivers.running(program, RAY_DEDUP_LOGS="0") as driver:
        out = driver.rest()
        driver.close()
        assert driver.process.returncode == 0, driver.errors
        return _parse(out), _parse(driver.errors)


def _parse(lines: list[str]) -> list[tuple[str, int, str]]:
    found = [LINE.match(line.rstrip("\n")) for line in lines]
    return [(each["who"], int(each["pid"]), each["text"]) for each in found if each]


def test_prints_of_a_task_are_shown_with_its_name_and_pid() -> None:
    out, err = shown(
        """
        import os, sys
        ray.init(num_cpus=1)
        @ray.remote
        def speak(word):
            print("out", word)
            print("err", word, file=sys.stderr)
            return os.getpid()
        pid = ray.get(speak.remote("a"))
        print(f"(driver pid={pid}) mine")
        """
    )
    (own,) = [each for each in out if each[0] == "driver"]
    assert ("speak", own[1], "out a") in out
    assert ("speak", own[1], "err a") in err


def test_prints_of_an_actor_are_shown_with_its_class_or_repr() -> None:
    out, _ = shown(
        """
        ray.init(num_cpus=1)
        @ray.remote
        class Plain:
            def __init__(self): print("born")
            def speak(self): print("spoke")
        @ray.remote
        class Named:
            def __init__(self, name): self.name = name
            def __repr__(self): return f"Named({self.name})"
            def speak(self): print("spoke too")
        plain, named = Plain.remote(), Named.remote("x")
        ray.get([plain.speak.remote(), named.speak.remote()])
        """
    )
    who = {text: name for name, _, text in out}
    assert (who["born"], who["spoke"], who["spoke too"]) == ("Plain", "Plain", "Named(x)")


def test_names_cannot_forge_lines_or_colour_them() -> None:
    with drivers.running(
        """
        ray.init(num_cpus=1)
        evil = "x\\n(node pid=1) forged\\x1b[31m"
        @ray.remote(name=evil)
        def speak():
            print("spoke")
            raise ValueError("told")
        class Evil:
            def __repr__(self): return evil
            def speak(self): print("acted")
            def fail(self): raise ValueError("told")
        Evil.__name__ = Evil.__qualname__ = evil
        actor = ray.remote(Evil).remote()
        ray.get(actor.speak.options(name=evil).remote())
        for ref in (speak.remote(), actor.fail.options(name=evil).remote()):
            try:
                ray.get(ref)
            except ValueError as error:
                print(str(error).splitlines()[0])
        """
    ) as driver:
        lines = [line.rstrip("\n") for line in driver.rest()]
        driver.close()
    told = [line for line in lines + driver.errors if "forged" in line]
    # By names, not by lines: print() writes a text and its end apart, and a worker's line may come between them.
    assert sum(line.count("forged") for line in told) >= 4, lines
    assert all(line.rstrip("\n").isprintable() and "x\\n(node" in line for line in told), told


def test_logging_in_tasks_is_shown() -> None:
    _, err = shown(
        """
        import logging
        ray.init(num_cpus=1)
        @ray.remote
        def speak():
            logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
            logging.getLogger("mine").info("hello")
            logging.warning("careful")
        ray.get(speak.remote())
        """
    )
    assert [(who, text) for who, _, text in err] == [("speak", "INFO hello"), ("speak", "WARNING careful")]


def test_lines_of_one_process_stay_in_order_and_none_is_lost() -> None:
    out, _ = shown(
        """
        ray.init(num_cpus=2)
        @ray.remote
        class Speaker:
            def __init__(self, name): self.name = name
            def speak(self, first):
                for i in range(first, first + 500):
                    print(self.name, i)
        speakers = [Speaker.remote(name) for name in "ab"]
        for first in range(0, 2000, 500):
            refs = [each.speak.remote(first) for each in speakers]
        ray.get(refs)
        """
    )
    for name in "ab":
        mine = [text for _, _, text in out if text.startswith(name)]
        assert mine == [f"{name} {i}" for i in range(2000)]


def test_the_last_words_before_shutdown_are_shown() -> None:
    """Printed right before the driver leaves: the node hands them over before the session ends."""
    out, _ = shown(
        """
        ray.init(num_cpus=2)
        @ray.remote
        def speak(i):
            print("last words", i)
        ray.get([speak.remote(i) for i in range(20)])
        ray.shutdown()
        """
    )
    assert sorted(text for _, _, text in out) == sorted(f"last words {i}" for i in range(20))


def test_the_last_words_of_a_dying_worker_are_shown() -> None:
    out, _ = shown(
        """
        import os, signal
        ray.init(num_cpus=1)
        @ray.remote(max_retries=0)
        def speak():
            print("last words", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            ray.get(speak.remote())
        except ray.exceptions.WorkerCrashedError:
            pass
        """
    )
    assert [text for _, _, text in out] == ["last words"]


def test_output_of_subprocesses_and_c_code_is_shown_too() -> None:
    out, _ = shown(
        """
        import os, subprocess
        ray.init(num_cpus=1)
        @ray.remote
        def speak():
            subprocess.run(["echo", "from a child"])
            os.write(1, b"from below\\n")
        ray.get(speak.remote())
        """
    )
    assert [text for _, _, text in out] == ["from a child", "from below"]


@pytest.mark.parametrize("how", ["log_to_driver=False", "_system_config={'log_to_driver': False}"])
def test_log_to_driver_false_keeps_quiet_but_keeps_the_files(leak_check: Path, how: str) -> None:
    out, err = shown(
        f"""
        ray.init(num_cpus=1, {how})
        @ray.remote
        def speak(): print("quiet")
        ray.get(speak.remote())
        """
    )
    assert (out, err) == ([], [])
    logs = [path.read_text() for path in leak_check.glob("session_2*/logs/worker-*.out")]
    assert any("quiet" in text for text in logs)


def test_each_driver_sees_its_own_workers_only(leak_check: Path) -> None:
    from sundog.engines import sessions

    info = sessions.start_head(num_cpus=2)
    program = """
        ray.init(address="auto")
        @ray.remote
        def speak(): print("words of {name}")
        ray.get(speak.remote())
        """
    try:
        for name in ("red", "blue"):
            out, _ = shown(program.format(name=name))
            assert [text for _, _, text in out] == [f"words of {name}"]
    finally:
        sessions.stop_session(info)


def test_long_and_odd_lines_arrive_whole() -> None:
    out, _ = shown(
        """
        ray.init(num_cpus=1)
        @ray.remote
        def speak():
            print("x" * 100_000)
            print("grüße ✓")
            print()
            print("no newline at the end", end="", flush=True)
        ray.get(speak.remote())
        """
    )
    texts = [text for _, _, text in out]
    assert texts[0] == "x" * 100_000
    assert "grüße ✓" in texts and "no newline at the end" in texts


def test_a_line_without_its_newline_is_shown_when_its_task_ends() -> None:
    out, err = shown(
        """
        import sys
        ray.init(num_cpus=1)
        @ray.remote
        def first(): print("one", end="")
        @ray.remote
        def second(): print("two", end="", flush=True)
        @ray.remote
        def third():
            print("three", end="", file=sys.stderr)
            raise ValueError
        @ray.remote(num_returns=2)
        def fourth():
            print("four", end="")
            return 1, 2
        @ray.remote
        class Plain:
            def __init__(self): print("born", end="")
            def speak(self, word): print(word, end="")
        @ray.remote
        class Loop:
            async def speak(self, word): print(word, end="")
        ray.get([first.remote(), first.remote(), second.remote(), *fourth.remote()])
        ray.wait([third.remote()])
        plain, loop = Plain.remote(), Loop.remote()
        ray.get([plain.speak.remote("p"), plain.speak.remote("q")])
        ray.get(loop.speak.remote("l"))
        """
    )
    lines = sorted((who, text) for who, _, text in out)
    assert lines == sorted(
        [("first", "one"), ("first", "one"), ("second", "two"), ("fourth", "four"), ("Plain", "born")]
        + [("Plain", "p"), ("Plain", "q"), ("Loop", "l")]
    )
    assert [(who, text) for who, _, text in err] == [("third", "three")]


def test_a_line_that_a_running_task_has_not_ended_is_not_cut_by_its_neighbour() -> None:
    out, _ = shown(
        """
        import asyncio
        ray.init(num_cpus=1)
        @ray.remote
        class Loop:
            def __init__(self):
                self.begun, self.go = asyncio.Event(), asyncio.Event()
            async def slow(self):
                print("slow", end=" ")
                self.begun.set()
                await self.go.wait()
                print("ends")
            async def quick(self):
                await self.begun.wait()
            async def release(self): self.go.set()
        loop = Loop.remote()
        slow = loop.slow.remote()
        ray.get(loop.quick.remote())
        ray.get(loop.release.remote())
        ray.get(slow)
        """
    )
    assert [text for _, _, text in out] == ["slow ends"]
