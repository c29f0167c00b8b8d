"""A cluster whose nodes have no sundog: it goes along with a program, with a submitted job, and through Ray Client."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import sundog
from sundog.observe.records import read_session
from sundog.observe.sessions import open_session
from tests.on_ray import cluster, free_port

pytestmark = pytest.mark.timeout(600)

# The Python of the nodes is this one, which has sundog. It begins with this, and has none but what is shipped.
WITHOUT = f"""
import sys
sys.path[:] = [each for each in sys.path if each != {os.path.dirname(os.path.dirname(sundog.__file__))!r}]
"""
PROGRAM = """
import sys
import sundog as ray

@ray.remote
def square(x):
    return x * x

@ray.remote
def total(n):
    import sundog
    return sum(sundog.get([square.remote(i) for i in range(n)])), sundog.__file__

ray.init(*sys.argv[1:], log_to_driver=False)
found, where = ray.get(total.remote(4))
print("total", found, "runtime_resources" in where or "py_modules" in where, flush=True)
ref = ray.put(1)
print("kinds", isinstance(ref, ray.ObjectRef), ray.is_initialized(), flush=True)
try:
    ray.get(square.remote("a"))
except ray.exceptions.RayTaskError as error:
    print("error", isinstance(error, TypeError), flush=True)
ray.shutdown()
"""
SAID = ["total 14 True", "kinds True True", "error True"]


class Place(NamedTuple):
    """The cluster, and a folder for programs."""

    folder: Path
    address: str
    client: str
    dashboard: str

    def run(self, *command: str, **environ: str) -> subprocess.CompletedProcess[str]:
        own = {"SUNDOG_TEMP_DIR": str(self.folder / "sessions"), "SUNDOG_SHIP_TO_NODES": "1"}
        rest = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
        return subprocess.run(
            [sys.executable, *command],
            cwd=self.folder,
            env={**rest, **own, **environ},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def sundog(self, *command: str) -> str:
        done = self.run("-m", "sundog.cli", *command, SUNDOG_ENGINE="local")
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("bare")
    (folder / "nodes").mkdir()
    (folder / "nodes" / "sitecustomize.py").write_text(WITHOUT)
    (folder / "job").mkdir()
    (folder / "job" / "program.py").write_text(PROGRAM)
    client, dashboard = free_port(), free_port()
    ports = (
        f"--ray-client-server-port={client}",
        f"--dashboard-port={dashboard}",
        "--include-dashboard=true",
    )
    variables = {"PYTHONPATH": str(folder / "nodes"), "SUNDOG_TEMP_DIR": str(folder / "there")}
    variables["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # a job's command is `python …`
    variables["PYTHONSAFEPATH"] = "1"  # nor is it found where the cluster was started
    with cluster(*ports, variables=variables) as address:
        yield Place(folder, address, f"ray://127.0.0.1:{client}", f"http://127.0.0.1:{dashboard}")


def lines(output: str) -> list[str]:
    return [line for line in output.splitlines() if line.split(" ")[0] in ("total", "kinds", "error")]


def test_a_program_brings_sundog_to_nodes_that_lack_it(place: Place) -> None:
    done = place.run("job/program.py", place.address, SUNDOG_ENGINE="ray")
    assert lines(done.stdout) == SAID, done.stderr[-3000:]
    names = [row.name for row in read_session(open_session(None, str(place.folder / "sessions")).path).tasks]
    assert sorted(names) == ["square"] * 5 + ["total"]


def test_a_program_works_through_ray_client(place: Place) -> None:
    done = place.run("job/program.py", place.client, SUNDOG_ENGINE="")
    assert lines(done.stdout) == SAID, done.stderr[-3000:]


def test_a_submitted_job_has_sundog_and_its_records_come_here(place: Place) -> None:
    shown = place.sundog(
        *("job", "submit", "--address", place.dashboard, "--submission-id", "one"),
        *("--working-dir", str(place.folder / "job"), "--", "python", "program.py"),
    )
    assert lines(shown) == SAID, shown
    until = time.monotonic() + 60
    while "SUCCEEDED" not in (status := place.sundog("job", "status", "one", "--address", place.dashboard)):
        assert time.monotonic() < until, status
    file = str(place.folder / "one.sundog")
    place.sundog("job", "records", "one", "--address", place.dashboard, "-o", file)
    assert "square" in place.sundog("list", "tasks", "--session", file)
    assert "one" in place.sundog("job", "list", "--address", place.dashboard)


def test_limits_of_a_job_are_refused_by_name(place: Place) -> None:
    done = place.run(
        *("-m", "sundog.cli", "job", "submit", "--address", place.dashboard, "--cpus", "1", "--", "true"),
        SUNDOG_ENGINE="local",
    )
    assert done.returncode == 1 and "cpus= does not work on a Ray cluster" in done.stderr
