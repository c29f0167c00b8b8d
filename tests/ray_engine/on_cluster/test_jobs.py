"""A program on a Ray cluster, and what sundog's commands say of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sundog.observe.records import read_session

PROGRAM = """
import sundog as ray

@ray.remote
def square(x):
    return x * x

@ray.remote
def total(n):
    return sum(ray.get([square.remote(i) for i in range(n)]))

@ray.remote(max_retries=0)
def halve(x):
    if x % 2:
        raise ValueError(f"{x} is odd")
    return x // 2

@ray.remote
class Counter:
    def __init__(self, at):
        self.at = at

    def add(self, by):
        self.at += by
        return self.at

    async def ask(self):
        return self.at

with ray.init(engine="ray") as context:
    counter = Counter.remote(10)
    print(ray.get(total.remote(4)), ray.get(counter.add.remote(1)), ray.get(counter.ask.remote()))
    try:
        ray.get(halve.remote(3))
    except ValueError as error:
        print(isinstance(error, ray.exceptions.RayTaskError), str(error).strip().splitlines()[-1])
    print(context["session_dir"])
"""


def python(folder: Path, *command: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


pytestmark = pytest.mark.timeout(400)  # Ray starts its processes slowly where many share few cores


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("job")
    (folder / "program.py").write_text(PROGRAM)
    done = python(folder, "program.py", SUNDOG_TEMP_DIR=str(folder / "sessions"))
    assert done.returncode == 0, done.stderr
    *lines, path = done.stdout.splitlines()
    return folder, lines, path


def sundog(job: Any, *command: str) -> str:
    folder, _, path = job
    done = python(folder, "-m", "sundog.cli", *command, "--session", path, SUNDOG_ENGINE="local")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_program_gets_what_it_would_get_anywhere(job: Any) -> None:
    assert job[1] == ["14 11 11", "True ValueError: 3 is odd"]


def test_every_task_and_call_has_one_row_with_its_owner_and_its_place(job: Any) -> None:
    found = read_session(job[2])
    rows = sorted(row.name for row in found.tasks)
    assert rows == [
        *["Counter.__init__", "Counter.add", "Counter.ask", "halve"],
        *["square"] * 4,
        "total",
    ]
    by_name = {row.name: row for row in found.tasks}
    assert by_name["square"].owner_id == by_name["total"].worker_id
    assert all(row.start_s is not None and row.start_s >= row.submit_s for row in found.tasks)
    assert all(row.node_id for row in found.tasks)
    assert {place.rpartition(":")[0].rpartition("/")[2] for place in found.sites.values()} <= {"program.py"}


def test_why_tells_the_error_and_replay_raises_it_here(job: Any) -> None:
    assert "3 is odd" in sundog(job, "why")
    task = next(row for row in read_session(job[2]).tasks if row.name == "halve").task_id.hex()
    done = python(job[0], "-m", "sundog.cli", "replay", task, "--session", job[2], SUNDOG_ENGINE="local")
    assert "3 is odd" in done.stdout + done.stderr and "same" in done.stdout + done.stderr


def test_the_timeline_has_every_task_and_a_group_for_the_node(job: Any) -> None:
    sundog(job, "timeline", "-o", str(job[0] / "t.json"))
    events = json.loads((job[0] / "t.json").read_text())
    events = events if isinstance(events, list) else events["traceEvents"]
    names = [event["name"] for event in events if event["ph"] == "X"]
    assert names.count("square") == 4
    groups = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert any(name.startswith("node ") for name in groups)


RAYS_OWN = """
import ray

@ray.remote
def square(x):
    return x * x

ray.init()
print(ray.get([square.remote(i) for i in range(3)]), hasattr(ray, "_raylet"))
ray.shutdown()
"""


def test_a_program_that_imports_ray_runs_on_ray_itself_and_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "rays.py").write_text(RAYS_OWN)
    sessions = tmp_path / "sessions"
    done = python(
        tmp_path, "-m", "sundog.cli", "run", "--engine", "ray", "rays.py", SUNDOG_TEMP_DIR=str(sessions)
    )
    assert done.stdout.splitlines() == ["[0, 1, 4] True"], done.stderr
    (folder,) = [each for each in sessions.iterdir() if each.name.startswith("session_2")]
    assert [row.name for row in read_session(str(folder)).tasks] == ["square"] * 3
