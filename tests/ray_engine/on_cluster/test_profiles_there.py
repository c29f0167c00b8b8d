"""A profile of a whole program on two nodes, and of functions that ask for one: merged into one flame graph each."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sundog.profiling.rows import profiles_of

PROGRAM = """
import time
from ray.cluster_utils import Cluster
import sundog as ray

SMALL = {"num_cpus": 1, "object_store_memory": 100_000_000}

@ray.remote(scheduling_strategy="SPREAD")
def spin():
    until = time.process_time() + 0.4
    while time.process_time() < until:
        pass
    return ray.get_runtime_context().get_node_id()

@ray.remote(profile="wall")
def pause():
    time.sleep(0.5)

cluster = Cluster(initialize_head=True, head_node_args={**SMALL, "include_dashboard": False})
cluster.add_node(**SMALL)
context = ray.init(address=cluster.address, log_to_driver=False)
nodes = set()
while len(nodes) < 2:
    nodes.update(ray.get([spin.remote() for _ in range(4)]))
ray.get(pause.remote())
ray.shutdown()
cluster.shutdown()
print(context["session_dir"])
"""


@pytest.mark.timeout(600)
def test_a_program_is_profiled_by_function_over_all_nodes(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    environ = {**os.environ, "SUNDOG_TEMP_DIR": str(tmp_path / "sessions")}
    environ.pop("RAY_ADDRESS", None)
    done = subprocess.run(
        [sys.executable, "-m", "sundog.cli", "profile", "run", "--engine", "ray", "program.py"],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    session = next(line for line in done.stdout.splitlines() if line.startswith(str(tmp_path)))
    found = {each.id: each for each in profiles_of(session)}
    whole = found["whole-program-cpu"]
    seconds: dict[str, float] = {}
    workers = 0
    for part in whole.parts:
        assert part.samples is not None
        spun = sum(s for (label, _), (s, _) in part.samples.stacks.items() if label == "spin")
        workers += spun > 0
        seconds["spin"] = seconds.get("spin", 0.0) + spun
    assert {part.role for part in whole.parts} == {"driver", "worker"} and workers >= 2
    assert seconds["spin"] > 0.8  # of 1.6 that they used, at the least
    nodes = {name[:8] for name in os.listdir(whole.folder) if name[0].isdigit() and len(name) > 14}
    assert len(nodes) >= 2
    assert "spin" in done.stdout and (Path(whole.folder) / "flame.html").exists()
    own = found["by-option-wall"]
    assert any(
        label == "pause" for part in own.parts if part.samples for (label, _) in part.samples.stacks
    ), own
