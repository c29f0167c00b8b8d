"""A session on a wall clock that jumps."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos import clocks

_PROGRAM = """
import random, time
import numpy as np
import sundog as ray
from tests.chaos import clocks

class Always(random.Random):
    def choice(self, options):
        return "-1d"

ray.init(num_cpus=1, object_store_memory=16 << 20)
refs = [ray.put(np.full(1 << 20, number, dtype=np.uint8)) for number in range(8)]
before, steady = time.time(), time.monotonic()
assert clocks.turn(Always())
assert time.time() < before - 80_000
# Past the limit: what was read longest ago is spilled, though it is younger than now by every wall clock.
refs += [ray.put(np.full(1 << 20, number, dtype=np.uint8)) for number in range(8, 40)]

@ray.remote
def first(array):
    return int(array[0])

assert ray.get([first.remote(ref) for ref in refs], timeout=60) == list(range(40))
from sundog import api
from sundog.wire.requests import Status
print("spilled", api.control(Status())["store"]["spilled_bytes_total"] > 0, time.monotonic() >= steady)
ray.shutdown()
"""


@pytest.mark.skipif(bool(clocks.refusal()), reason=clocks.refusal())
def test_a_clock_set_back_by_a_day_changes_nothing(tmp_path: Path) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        env={**os.environ, **clocks.shifted(str(tmp_path)), "PYTHONPATH": os.getcwd()},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        out, errors = program.communicate(timeout=200)
    finally:
        program.kill()
        program.wait()
        clocks.tidy()
    assert (program.returncode, out.split()) == (0, ["spilled", "True", "True"]), errors


def test_a_program_without_a_clock_of_its_own_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    import random

    monkeypatch.delenv("FAKETIME_TIMESTAMP_FILE", raising=False)
    assert not clocks.turn(random.Random(1))


def test_what_the_library_left_of_a_killed_program_is_removed_and_that_of_others_is_not() -> None:
    gone = (1 << 22) + os.getpid()  # no kernel has so many: never the pid of anybody
    left = [Path("/dev/shm", name) for name in (f"faketime_shm_{gone}", f"sem.faketime_sem_{gone}")]
    kept = Path("/dev/shm", f"faketime_shm_{os.getpid()}")
    try:
        for path in (*left, kept):
            path.touch()
        clocks.tidy()
        assert [path.exists() for path in (*left, kept)] == [False, False, True]
    finally:
        for path in (*left, kept):
            path.unlink(missing_ok=True)
