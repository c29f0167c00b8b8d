"""Every program in examples/ prints on a Ray cluster, recorded, what it printed on plain Ray."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.integration.examples import programs

# What starts or loses nodes of its own has no use for the cluster of these tests.
_OWN_CLUSTER = {"placement", "lost_node"}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", programs.NAMES)
def test_an_example_prints_what_it_printed_on_plain_ray(name: str) -> None:
    environ = {
        key: value for key, value in os.environ.items() if key != "RAY_ADDRESS" or name not in _OWN_CLUSTER
    }
    done = subprocess.run(
        [sys.executable, "-m", "sundog.cli", "run", "--engine", "ray", f"{name}.py"],
        cwd=programs.EXAMPLES,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # Ray's own remarks (of many processes on a small machine, say) come on the program's stdout.
    shown = "".join(line for line in done.stdout.splitlines(keepends=True) if "(raylet)" not in line)
    expected = (programs.EXPECTED / f"{name}.txt").read_text()
    assert programs.comparable(name, shown) == expected
