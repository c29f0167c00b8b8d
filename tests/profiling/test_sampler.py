"""Sampling the threads of this process."""

from __future__ import annotations

import _thread
import json
import os
import sys
import threading
import time
from typing import Any

import sundog
from sundog.profiling.sampler import StackSampler


def test_cpu_time_counts_who_computes_and_wall_time_who_waits() -> None:
    stop = threading.Event()

    def compute() -> None:
        while not stop.is_set():
            sum(range(1000))

    def wait() -> None:
        stop.wait()

    threads = [threading.Thread(target=each, name=each.__name__) for each in (compute, wait)]
    samplers = [StackSampler("cpu", role="driver"), StackSampler("wall", role="driver")]
    for thread in threads:
        thread.start()
    for sampler in samplers:
        sampler.start()
    deadline = time.monotonic() + 120

    def seconds(sampler: StackSampler, name: str) -> float:
        found = sampler.result().stacks.items()
        return sum(
            spent for (_, stack), (spent, _) in found if any(frame.name.endswith(name) for frame in stack)
        )

    try:
        while seconds(samplers[0], "compute") < 0.05 or seconds(samplers[1], "<locals>.wait") < 0.05:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert seconds(samplers[0], "<locals>.wait") < seconds(samplers[0], "compute") / 5
    finally:
        stop.set()
        for sampler in samplers:
            sampler.stop()
        for thread in threads:
            thread.join()


def found_in(role: str, *files: tuple[str, str]) -> tuple[str, list[str]] | None:
    """What a sampler takes a thread for that is in functions of these files and names, outermost first."""
    keys: list[Any] = []
    sampler = StackSampler("wall", role=role)

    def look() -> None:
        keys.append(sampler._key(threading.get_ident(), sys._getframe()))

    goes_on: Any = look
    for path, name in reversed(files):
        names: dict[str, Any] = {"go_on": goes_on}
        exec(compile(f"def {name}():\n    go_on()\n", path, "exec"), names)
        goes_on = names[name]
    thread = threading.Thread(target=goes_on)
    thread.start()
    thread.join()
    key = keys[0]
    ours = {name for _, name in files}
    return None if key is None else (key[0], [code.co_name for code in key[1] if code.co_name in ours])


PACKAGE = os.path.dirname(sundog.__file__)
RUN = (f"{PACKAGE}/worker/executor.py", "run")
LIBRARY = (json.encoder.__file__, "iterencode")


def test_what_a_library_does_for_the_worker_is_not_a_task_and_a_task_may_be_a_function_of_one() -> None:
    assert found_in("worker", RUN, ("/home/me/f.py", "step"), LIBRARY) == ("", ["step", "iterencode"])
    assert found_in("worker", RUN, LIBRARY) == ("", ["iterencode"])
    profiled = (f"{PACKAGE}/worker/profiles.py", "call")
    assert found_in("worker", RUN, profiled, LIBRARY) == ("", ["iterencode"])
    for own in ("worker/profiles.py", "_write"), ("worker/messages.py", "stack"):
        assert found_in("worker", RUN, (f"{PACKAGE}/{own[0]}", own[1]), LIBRARY) is None
    assert found_in("worker", (f"{PACKAGE}/worker/answers.py", "flush"), LIBRARY) is None


def test_the_thread_of_another_sampler_is_not_the_programs() -> None:
    here = ("/home/me/f.py", "mine")
    assert found_in("driver", here) is not None
    other = StackSampler("wall", role="driver")
    other.start()
    seen: list[Any] = []
    try:
        sampler = StackSampler("wall", role="driver")
        frame = sys._current_frames()[other._thread.ident or 0]
        sampler._threads[other._thread.ident or 0] = "unknown"  # it has just begun
        seen.append(sampler._key(other._thread.ident or 0, frame))
    finally:
        other.stop()
    assert seen == [None]


def test_a_thread_of_sundog_that_has_no_name_is_not_the_programs() -> None:
    sampler = StackSampler("wall", role="driver")
    done = threading.Event()
    seen: list[Any] = []
    names: dict[str, Any] = {
        "sampler": sampler,
        "seen": seen,
        "done": done,
        "sys": sys,
        "ident": _thread.get_ident,
    }
    code = "def answer():\n    seen.append(sampler._key(ident(), sys._getframe()))\n    done.set()\n"
    for path in (f"{PACKAGE}/owner/looks.py", "/home/me/f.py"):
        exec(compile(code, path, "exec"), names)
        done.clear()
        _thread.start_new_thread(names["answer"], ())
        assert done.wait(120)
    assert seen[0] is None and seen[1] is not None
