"""Every program in examples/ prints on a Ray cluster, recorded, what it printed on plain Ray.

Unmodified (`import ray`, by `sundog run --engine ray`), and as a program of sundog's (`import sundog as ray`).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.examples import programs

# What starts or loses nodes of its own, or says how many CPUs it wants, has no use for the cluster of these tests.
_OWN_CLUSTER = {"placement", "lost_node", "profile_loops"}
# Ray's own remarks (of many processes on a small machine, of a node that is lost) come on the program's stdout.
_LOSES_A_NODE = "lost_node"  # among the remarks are empty lines, and the program prints none
_RAYS = ("(raylet)", "[state-dump]", "raylet has lagging heartbeats")


def check(name: str, command: list[str]) -> None:
    """Run an example by a command; its output is the one of plain Ray."""
    environ = {**os.environ, **({"RAY_ADDRESS": "local"} if name in _OWN_CLUSTER else {})}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=programs.EXAMPLES,
        env={**environ, "SUNDOG_ENGINE": "ray"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines(keepends=True)
    own = [line for line in lines if not any(each in line for each in _RAYS)]
    shown = "".join(line for line in own if line.strip() or name != _LOSES_A_NODE)
    expected = (programs.EXPECTED / f"{name}.txt").read_text()
    assert programs.comparable(name, shown) == expected


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", programs.NAMES)
def test_an_example_prints_what_it_printed_on_plain_ray(name: str) -> None:
    check(name, ["-m", "sundog.cli", "run", "--engine", "ray", f"{name}.py"])


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", programs.NAMES)
def test_an_example_of_sundogs_prints_the_same_there(name: str, tmp_path: Path) -> None:
    text = (programs.EXAMPLES / f"{name}.py").read_text()
    text = re.sub(r"^import ray$", "import sundog as ray", text, flags=re.MULTILINE)
    text = re.sub(r"^from ray\.util", "from sundog.util", text, flags=re.MULTILINE)
    program = tmp_path / f"{name}.py"
    program.write_text(text)
    check(name, [str(program)])
