"""Stacks of the workers of a node, by signal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from sundog.ray_engine import faults

WORKER = """
import sys, time
from sundog.ray_engine import faults
faults.listen(sys.argv[1])
def hang():
    print("ready", flush=True)
    while True:
        time.sleep(60)
hang()
"""


def test_the_stack_of_a_worker_names_what_it_runs(tmp_path: Path) -> None:
    (tmp_path / "rings").mkdir()
    ring = tmp_path / "rings" / ("aa" * 8 + ".ring")
    ring.touch()
    worker = subprocess.Popen([sys.executable, "-c", WORKER, str(ring)], stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None and worker.stdout.readline() == "ready\n"
    facts = {"process": "aa" * 8, "node": "bb", "job": "01", "pid": worker.pid, "role": "worker"}
    Path(f"{ring}.json").write_text(json.dumps(facts))
    (found,) = faults.stacks_of(str(tmp_path))
    assert found["pid"] == worker.pid and "in hang" in found["text"]
    worker.kill()
    worker.wait()
    worker.stdout.close()
    assert faults.stacks_of(str(tmp_path)) == []


def test_drivers_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "rings").mkdir()
    ring = tmp_path / "rings" / ("aa" * 8 + ".ring")
    ring.touch()
    Path(f"{ring}.json").write_text(json.dumps({"pid": os.getpid(), "role": "driver"}))
    assert faults.stacks_of(str(tmp_path)) == []
