"""Every program in examples/ runs unchanged under `sundog run` and prints what Ray prints.

The expected files were made on Ray (see `record`). Where SUNDOG_TEST_RAY_PYTHON names a Python that has Ray,
the program also runs there now, and the two outputs are compared directly.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.examples import programs

ON_SUNDOG = [sys.executable, "-m", "sundog.cli", "run"]
PEER_PYTHON = os.environ.get("SUNDOG_TEST_RAY_PYTHON")


def output_of(command: list[str], name: str, limit_s: float) -> str:
    done = programs.run(command, name, limit_s=limit_s)
    assert done.returncode == 0, f"{name} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return programs.comparable(name, done.stdout)


@pytest.mark.parametrize("name", programs.NAMES)
def test_an_example_prints_on_sundog_what_it_printed_on_ray(name: str) -> None:
    expected = (programs.EXPECTED / f"{name}.txt").read_text()
    assert output_of(ON_SUNDOG, name, limit_s=200) == expected


@pytest.mark.skipif(PEER_PYTHON is None, reason="SUNDOG_TEST_RAY_PYTHON names no Python that has Ray")
@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", programs.NAMES)
def test_an_example_prints_the_same_on_sundog_and_on_ray_now(name: str) -> None:
    assert PEER_PYTHON is not None
    on_ray = output_of([PEER_PYTHON], name, limit_s=180)
    # Ray's own warnings (of many processes on a small machine, say) come on the program's stdout.
    on_ray = "".join(line for line in on_ray.splitlines(keepends=True) if "(raylet)" not in line)
    assert output_of(ON_SUNDOG, name, limit_s=200) == on_ray


def test_the_timeline_of_the_lost_node_shows_what_was_made_again(tmp_path: Path) -> None:
    path = tmp_path / "lost.json"
    done = subprocess.run(
        [*ON_SUNDOG, "lost_node.py", str(path)],
        cwd=programs.EXAMPLES,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    events = json.loads(path.read_text())
    [gone] = [each for each in events if each.get("cat") == "node" and each["name"].endswith("is gone")]
    runs = [each for each in events if each.get("cat") == "task" and each["name"] == "squares"]
    again = [each for each in runs if each["args"]["attempt"]]
    first = {each["args"]["task_id"] for each in runs if not each["args"]["attempt"]}
    assert len(first) == 8 and len(again) == 4, "half of the results were on the lost node"
    assert {each["args"]["task_id"] for each in again} < first
    # On the track of the node that is left: the loss has its mark on the track of the other.
    assert all(each["ts"] > gone["ts"] and each["pid"] != gone["pid"] for each in again)


def test_every_example_has_an_expected_output_and_nothing_is_left_over() -> None:
    assert sorted(path.stem for path in programs.EXPECTED.glob("*.txt")) == programs.NAMES


def test_every_example_says_import_ray_and_knows_nothing_of_sundog() -> None:
    for name in programs.NAMES:
        source = (programs.EXAMPLES / f"{name}.py").read_text()
        assert "import ray" in source.splitlines(), name
        assert not re.search(r"^\s*(import|from) sundog", source, re.M), name


def test_every_example_is_introduced_in_the_readme() -> None:
    introduced = re.findall(
        r"^\| \[(\w+)\.py\]\(\1\.py\)", (programs.EXAMPLES / "README.md").read_text(), re.M
    )
    assert introduced == programs.NAMES


def test_an_example_that_fails_gives_the_same_exit_code_as_python() -> None:
    done = subprocess.run(
        [*ON_SUNDOG, "-"], input="import ray\nraise SystemExit(7)\n", text=True, check=False, timeout=120
    )
    assert done.returncode == 7
