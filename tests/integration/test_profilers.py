"""Profilers on the driver read as users know them: time spent waiting is time in `get`, submitting is cheap.

The four loops that every introduction profiles, with shorter sleeps. Lower bounds hold whatever the machine does: a
`get` cannot return before the task has slept.
"""

from __future__ import annotations

import cProfile
import pstats
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SLEEP_S = 0.1
LOOPS = 5

PROGRAM = f"""
import time
import sundog as ray

@ray.remote
def func():
    time.sleep({SLEEP_S})

def other_func():
    time.sleep({SLEEP_S})

@profile
def ex1():
    list1 = []
    for i in range({LOOPS}):
        list1.append(ray.get(func.remote()))

@profile
def ex2():
    list2 = []
    for i in range({LOOPS}):
        list2.append(func.remote())
    ray.get(list2)

@profile
def ex3():
    list3 = []
    for i in range({LOOPS}):
        other_func()
        list3.append(func.remote())
    ray.get(list3)

if __name__ == "__main__":
    ray.init(num_cpus={LOOPS})
    ex1()
    ex2()
    ex3()
    ray.shutdown()
"""


@pytest.fixture
def ray(leak_check: Path) -> Any:
    import sundog

    sundog.init(num_cpus=LOOPS)
    yield sundog
    sundog.shutdown()


def profiled(function: Callable[[], object]) -> dict[str, tuple[int, float]]:
    """Calls and cumulative seconds of each function, by "file.py(function)"."""
    profile = cProfile.Profile()
    profile.runcall(function)
    found: dict[str, tuple[int, float]] = {}
    for (path, _, name), row in pstats.Stats(profile).stats.items():
        key = f"{Path(path).name}({name})"
        calls, seconds = found.get(key, (0, 0.0))
        found[key] = calls + row[1], seconds + row[3]
    return found


def test_cprofile_shows_five_gets_that_wait_and_five_cheap_submissions(ray: ModuleType) -> None:
    @ray.remote
    def func() -> None:
        time.sleep(SLEEP_S)

    def ex1() -> None:
        for _ in range(LOOPS):
            ray.get(func.remote())

    rows = profiled(ex1)
    gets, waited = rows["api.py(get)"]
    submissions, spent = rows["remote_function.py(remote)"]
    assert gets == submissions == LOOPS
    assert waited >= LOOPS * SLEEP_S
    assert spent < waited


def test_the_first_profiled_call_shows_few_frames_and_no_imports(leak_check: Path) -> None:
    program = f"""
        import cProfile, pstats, time
        import sundog as ray
        ray.init(num_cpus=1)
        @ray.remote
        def func():
            time.sleep({SLEEP_S})
        def ex1():
            for _ in range({LOOPS}):
                ray.get(func.remote())
        profile = cProfile.Profile()
        profile.runcall(ex1)
        stats = pstats.Stats(profile)
        print(stats.total_calls, sum("importlib" in path for path, _, _ in stats.stats))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    calls, imports = map(int, done.stdout.split())
    # From Python 3.12 on cProfile looks at all threads, also at the one that imports.
    if sys.version_info >= (3, 12):
        assert calls < 25_000
        return
    assert calls < 4000, "an import of cloudpickle alone is five times that"
    assert imports <= 20, "a module that is there already is still asked for"


def test_a_get_shows_no_more_frames_however_long_its_task_takes(ray: ModuleType) -> None:
    @ray.remote
    def func() -> None:
        time.sleep(20 * SLEEP_S)

    ray.get(func.remote())
    rows = profiled(lambda: ray.get(func.remote()))
    # The looks of a clock at 50 a second would show one hundred.
    assert rows["dispatch.py(release_idle)"][0] < 20
    assert sum(calls for calls, _ in rows.values()) < 1500


def test_cprofile_shows_one_get_for_five_calls_of_one_actor(ray: ModuleType) -> None:
    @ray.remote
    class Sleeper:
        def actor_func(self) -> None:
            time.sleep(SLEEP_S)

    def ex4() -> None:
        sleeper = Sleeper.remote()
        ray.get([sleeper.actor_func.remote() for _ in range(LOOPS)])

    rows = profiled(ex4)
    gets, waited = rows["api.py(get)"]
    creations, _ = rows["actor.py(remote)"]
    calls, spent = rows["actor_method.py(remote)"]
    assert gets == 1 and creations == 1 and calls == LOOPS
    assert waited >= (LOOPS - 1) * SLEEP_S  # the first may have begun before get did
    assert spent < waited


def test_line_profiler_names_the_line_that_waits(tmp_path: Path, leak_check: Path) -> None:
    (tmp_path / "loops.py").write_text(PROGRAM)
    for command in (
        ["kernprof", "-l", "loops.py"],
        ["line_profiler", "loops.py.lprof"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", *command], cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
    lines = [
        (int(hits), float(share), code.strip())
        for hits, share, code in re.findall(
            r"^ *\d+ +(\d+) +[\d.e+]+ +[\d.e+]+ +([\d.]+) +(.*)$", done.stdout, re.MULTILINE
        )
    ]
    by_code = {code: (hits, share) for hits, share, code in lines}
    assert by_code["list1.append(ray.get(func.remote()))"][0] == LOOPS
    assert by_code["list1.append(ray.get(func.remote()))"][1] > 90
    assert by_code["ray.get(list2)"][0] == 1
    assert by_code["ray.get(list2)"][1] > by_code["list2.append(func.remote())"][1]
    assert by_code["other_func()"][0] == LOOPS
    assert by_code["other_func()"][1] > by_code["list3.append(func.remote())"][1]
