"""Profiles of real programs: whole runs, running actors, single functions, blocks of a program."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import numpy as np


def sundog(*args: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "sundog.cli", *args], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


PROGRAM = """
    import time
    import sundog as ray

    def hot(seconds):
        end = time.process_time() + seconds
        while time.process_time() < end:
            sum(range(100))

    @ray.remote
    def spin(seconds):
        hot(seconds)

    @ray.remote(profile="line")
    def count(number):
        total = 0
        for each in range(number):
            total += each
        return total

    ray.init(num_cpus=1)
    ray.get([spin.remote(0.3), spin.remote(0.1)])
    print(ray.get([count.remote(100), count.remote(200)]))
"""


def test_a_whole_run_is_merged_by_remote_function(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(dedent(PROGRAM))
    shown = sundog("profile", "run", str(path))
    assert "[4950, 19900]" in shown
    assert re.search(r"0\.[234]\d +\d\d\.\d% +spin +program\.py:\d+ hot", shown), shown
    page = Path(re.findall(r"Flame graph: (\S+)", shown)[0])
    assert '"n": "spin"' in page.read_text() and (page.parent / "speedscope.json").exists()
    listed = sundog("profile", "list")
    assert "program.py" in listed and "by-option-line" in listed
    lines = sundog("profile", "show", "by-option-line")
    assert re.search(r" 300 .* total \+= each", lines), lines
    assert "cpu profile of program.py" in sundog("profile", "show", page.parent.name)


def test_functions_are_measured_by_line_and_c_code_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(dedent(BY_LINE))
    shown = sundog("profile", "run", "--line", "inner", "--line", "Model.step", str(path))
    assert re.search(r" 30 .* total \+= each", shown), shown
    assert re.search(r" 2 .* return number", shown) and "Model.step" in shown
    assert "call_inner" not in shown.replace("= call_inner", "").replace("+ call_inner", "")
    native = sundog("profile", "run", "--native", str(path))
    assert "cpu profile of program.py" in native and "Flame graph" in native


BY_LINE = """
    import sundog as ray

    def inner(number):
        total = 0
        for each in range(number):
            total += each
        return number

    def call_inner(number):
        return inner(number)

    @ray.remote
    def deep(number):
        return call_inner(number)

    @ray.remote
    def shallow(number):
        return ray.get(deep.remote(number))

    @ray.remote
    class Model:
        def step(self, number):
            total = call_inner(number)
            return total

    ray.init(num_cpus=1)
    print(ray.get(shallow.remote(10)), ray.get(Model.remote().step.remote(20)))
"""


def test_a_leak_in_an_actor_is_named_by_its_line(ray: ModuleType) -> None:
    @ray.remote
    class Leaky:
        def __init__(self) -> None:
            self.kept: list[Any] = []

        def run(self, seconds: float) -> None:
            import time

            end = time.monotonic() + seconds
            while time.monotonic() < end:
                np.ones(50_000)
                self.kept.append(bytearray(20_000))  # the leak
                time.sleep(0.001)

    actor = Leaky.remote()
    ray.get(actor.run.remote(0.0))
    done = actor.run.remote(60.0)
    shown = sundog("profile", "attach", actor._actor_id.hex(), "--memory", "--seconds", "1")
    kept = shown.partition("Not freed")[2].partition("At the peak")[0].splitlines()
    assert "self.kept.append(bytearray(20_000))  # the leak" in kept[2], shown
    binary = re.findall(r"memray flamegraph (\S+)", shown)[0]
    subprocess.run(
        [sys.executable, "-m", "memray", "flamegraph", "-o", f"{binary}.html", binary],
        check=True,
        capture_output=True,
    )
    ray.kill(actor)
    del done
