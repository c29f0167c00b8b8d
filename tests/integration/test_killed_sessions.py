"""A driver that is killed in mid-run: afterwards the records tell what was running, what failed, and why."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from sundog import config
from sundog.observe.sessions import all_sessions
from tests.integration.gates import await_true

PROGRAM = """
import os, sys, time
import sundog as ray
ray.init(num_cpus=2, logging_level="ERROR", log_to_driver=False)

@ray.remote
def done(number):
    return number

@ray.remote(max_retries=0)
def fails():
    raise ValueError("bad input")

@ray.remote
def hangs(folder):
    print("a line of hangs")
    open(f"{folder}/begun-{os.getpid()}", "w").close()
    time.sleep(1000)

@ray.remote
class Counter:
    def add(self):
        return 1

ray.get([done.remote(number) for number in range(500)])
counter = Counter.remote()
ray.get(counter.add.remote())
try:
    ray.get(fails.remote())
except ValueError:
    pass
refs = [hangs.remote(sys.argv[1])]
ray.get(refs)
"""


def sundog(*arguments: str, code: int = 0) -> str:
    found = subprocess.run(
        [sys.executable, "-m", "sundog.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TMPDIR": config.load().temp_dir},  # where files are unpacked
    )
    assert found.returncode == code, found.stderr
    return found.stdout if not code else found.stderr


def test_a_killed_session_tells_what_it_was_doing(leak_check: Path, tmp_path: Path) -> None:
    driver = subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path)])
    await_true(lambda: bool(list(tmp_path.glob("begun-*"))), "a task runs")
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    await_true(lambda: not all_sessions()[0].is_live, "the session has ended")

    summary = json.loads(sundog("summary", "tasks", "--json"))[0]["summary"]
    assert summary["done"]["state_counts"] == {"FINISHED": 500}
    assert summary["fails"]["state_counts"] == {"FAILED": 1}
    [row] = json.loads(sundog("list", "tasks", "-f", "name=hangs", "--detail", "--json"))
    assert (row["state"], row["error_type"]) == ("FAILED", "WORKER_DIED")
    assert "running when its session ended" in row["error_message"]
    [actor] = json.loads(sundog("list", "actors", "--json"))
    assert (actor["class_name"], actor["state"]) == ("Counter", "DEAD")
    [job] = json.loads(sundog("list", "jobs", "--json"))
    assert job["status"] == "FAILED", "its driver did not leave, whether or not the node lived to see it go"

    [story] = json.loads(sundog("why", "--json"))
    assert story["subject"].startswith("task hangs()")
    assert "ValueError: bad input" in sundog("why", "fails")
    trace = json.loads(sundog("timeline", "-o", "-"))
    assert sum(each["name"] == "done" and each["ph"] == "X" for each in trace) == 500
    assert [each["args"]["status"] for each in trace if each["name"] == "hangs" and each["ph"] == "X"] == [
        "RUNNING"
    ]

    file = str(tmp_path / "run.sundog")
    sundog("session", "export", file)
    asked = "select count(*) as n from tasks where name = 'done'"
    assert json.loads(sundog("sql", asked, "--session", file, "--json")) == [{"n": 500}]
    half = Path(file).read_bytes()
    Path(file).write_bytes(half[: len(half) // 2])
    for arguments in (("why",), ("list", "tasks"), ("timeline", "-o", "-"), ("sql", "select 1")):
        assert len(sundog(*arguments, "--session", file, code=3).splitlines()) == 1


COUNTING = """
import os, sys, time
import sundog as ray
ray.init(num_cpus=2, logging_level="ERROR", log_to_driver=False)
folder = sys.argv[1]

@ray.remote
def counted():
    fd = os.open(f"{folder}/ran-{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(fd, ray.get_runtime_context().get_task_id().encode() + b"\\n")
    os.close(fd)

while True:
    # Slowly: a node that is stopped for a while must find all of it in the rings.
    ray.get([counted.remote() for _ in range(20)])
    time.sleep(0.01)
"""


def test_of_a_killed_session_nothing_is_missing_but_what_ended_at_that_moment(
    leak_check: Path, tmp_path: Path
) -> None:
    driver = subprocess.Popen([sys.executable, "-c", COUNTING, str(tmp_path)])

    def ran() -> list[list[str]]:
        return [path.read_text().splitlines() for path in tmp_path.glob("ran-*")]

    await_true(lambda: sum(map(len, ran())) > 1000, "a thousand tasks have run")
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    await_true(lambda: not all_sessions()[0].is_live, "the session has ended")

    recorded = {row["task_id"] for row in json.loads(sundog("sql", "select task_id from tasks", "--json"))}
    for worker in ran():
        # Each wrote its line as the last thing that it did: only of the last one can the end be missing.
        assert set(worker[:-1]) <= recorded, f"{len(set(worker) - recorded)} of {len(worker)} are missing"
    assert recorded <= {task for worker in ran() for task in worker}
    trace = tmp_path / "trace.json"
    sundog("timeline", "-o", str(trace))
    drawn = [each for each in json.loads(trace.read_text()) if each.get("cat") == "task"]
    assert {each["args"]["task_id"] for each in drawn} >= recorded
    text = sundog("why", "--json")
    assert json.loads(text)
