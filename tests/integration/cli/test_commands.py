"""The commands on real sessions: start, join, status, stop; run; demo; microbenchmark."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from sundog.cli import exits

Sundog = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def sundog(leak_check: Path) -> Iterator[Sundog]:
    """The command line in its own process; sessions lie in this test's folder, and end with the test."""

    def call(*args: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "sundog.cli", *args],
            input=dedent(stdin),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    yield call
    assert call("stop", "--force").returncode == exits.OK


def run_ok(sundog: Sundog, *args: str, stdin: str = "") -> str:
    done = sundog(*args, stdin=stdin)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_started_session_can_be_asked_joined_and_stopped(sundog: Sundog) -> None:
    started = run_ok(sundog, "start", "--head", "--num-cpus", "3", "--resources", '{"disk": 2}')
    assert 'init(address="auto")' in started

    status = json.loads(run_ok(sundog, "status", "--json"))
    assert status["resources"]["total"]["CPU"] == 3
    assert status["resources"]["total"]["disk"] == 2
    assert "Nothing waits for resources." in run_ok(sundog, "status")

    joined = run_ok(
        sundog,
        "run",
        "-",
        stdin="""
        import ray
        ray.init(address="auto")
        print(ray.cluster_resources()["disk"], ray.get(ray.remote(lambda: 6 * 7).remote()))
        """,
    )
    assert joined == "2.0 42\n"

    assert "1 session ended." in run_ok(sundog, "stop")
    assert sundog("status").returncode == exits.NO_SESSION
    assert run_ok(sundog, "stop") == "No session is running.\n"


def test_what_one_program_leaves_in_a_session_another_finds(sundog: Sundog) -> None:
    run_ok(sundog, "start", "--head", "--num-cpus", "2")
    run_ok(
        sundog,
        "run",
        "-",
        stdin="""
        import ray
        ray.init(address="auto", namespace="shared")
        @ray.remote
        class Counter:
            def __init__(self): self.count = 0
            def add(self): self.count += 1; return self.count
        counter = Counter.options(name="counter", lifetime="detached").remote()
        assert ray.get(counter.add.remote()) == 1
        """,
    )
    found = run_ok(
        sundog,
        "run",
        "-",
        stdin="""
        import ray
        ray.init(address="auto", namespace="shared")
        print(ray.get(ray.get_actor("counter").add.remote()))
        """,
    )
    assert found == "2\n"


def test_what_cannot_be_placed_is_shown_with_its_reason(sundog: Sundog) -> None:
    run_ok(sundog, "start", "--head", "--num-cpus", "1")
    answer = run_ok(
        sundog,
        "run",
        "-",
        stdin="""
        import json, subprocess, sys, time, ray
        ray.init(address="auto")
        impossible = ray.remote(num_cpus=64)(lambda: None).remote()
        pending = []
        while not pending:
            status = [sys.executable, "-m", "sundog.cli", "status", "--json"]
            pending = json.loads(subprocess.run(status, capture_output=True, check=True).stdout)["pending"]
        print(json.dumps(pending))
        """,
    )
    [demand] = json.loads(answer)
    assert dict(demand["shape"])["CPU"] == 64
    assert demand["count"] == 1
    assert demand["why"]


def test_import_ray_works_inside_tasks_and_actors_too(sundog: Sundog) -> None:
    shown = run_ok(
        sundog,
        "run",
        "-",
        stdin="""
        import ray

        @ray.remote
        def in_a_task():
            import ray, ray.util.queue, sundog.util.queue
            from ray.exceptions import RayError
            return ray.util.queue is sundog.util.queue, issubclass(RayError, Exception)

        @ray.remote
        class Actor:
            def nested(self):
                import ray
                return ray.get(in_a_task.remote())

        print(ray.get(in_a_task.remote()), ray.get(Actor.remote().nested.remote()))
        """,
    )
    assert shown == "(True, True) (True, True)\n"


def test_a_program_that_says_import_sundog_has_no_ray_in_its_workers(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sundog\n"
        "def probe():\n    import sys\n    return 'ray' in sys.modules\n"
        "print(sundog.get(sundog.remote(probe).remote()))\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr


def test_the_demo_shows_results_timeline_and_advice(sundog: Sundog, tmp_path: Path) -> None:
    shown = run_ok(sundog, "demo", "--timeline", str(tmp_path / "timeline.json"))
    assert shown.count("9252 primes below 96000") == 3
    for name in ("one_by_one", "all_at_once", "Counter.add_block"):
        assert name in shown
    assert "Advice:" in shown
    assert json.loads((tmp_path / "timeline.json").read_text())


def test_the_microbenchmark_measures_every_case(sundog: Sundog) -> None:
    figures = json.loads(run_ok(sundog, "microbenchmark", "--seconds", "0", "--json"))
    assert len(figures) >= 11
    assert all(figure["median"] > 0 for figure in figures)


def test_an_error_in_a_task_ends_the_script_with_one_and_shows_where(sundog: Sundog) -> None:
    done = sundog(
        "run",
        "-",
        stdin="""
        import ray

        @ray.remote
        def divide(a, b):
            return a / b

        ray.get(divide.remote(1, 0))
        """,
    )
    assert done.returncode == 1
    assert "ZeroDivisionError: division by zero" in done.stderr
    assert "in divide" in done.stderr
    assert os.path.join("sundog", "cli") not in done.stderr
