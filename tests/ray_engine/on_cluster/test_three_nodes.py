"""Three nodes: the clock of one is 100 s ahead, another is killed; and the tools that look into a task far away."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sundog import events
from sundog.observe.index import opened as opened_index
from sundog.observe.records import read_session

PROGRAM = Path(__file__).parent / "programs" / "three_nodes.py"
# Gives the Python processes of a node another clock.
CLOCK = """
import os, time
ahead_s = float(os.environ.get("CLOCK_AHEAD_S") or 0)
if ahead_s:
    true_time, true_ns = time.time, time.time_ns
    time.time = lambda: true_time() + ahead_s
    time.time_ns = lambda: true_ns() + int(ahead_s * 1e9)
"""
PUSH_S = 1.0
LATENESS_S = 15.0  # of a push, on a machine with more to do than it can

pytestmark = pytest.mark.timeout(600)


class Job:
    """The program while it runs, and what the commands said of it on the way."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "sitecustomize.py").write_text(CLOCK)
        self.environ = {**os.environ, "SUNDOG_TEMP_DIR": str(folder / "sessions"), "SUNDOG_ENGINE": "local"}
        self.environ.pop("RAY_ADDRESS", None)
        self.stderr = open(folder / "stderr", "w+")
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.stderr,
            env=self.environ,
            text=True,
            bufsize=1,
        )
        self.said: dict[str, list[str]] = {}

    def until(self, word: str) -> list[str]:
        """Let the program go on until it says a word; what it says with it."""
        while word not in self.said:
            if self.said:
                assert self.process.stdin is not None
                self.process.stdin.write("\n")
            assert self.process.stdout is not None
            line = self.process.stdout.readline().split()
            if not line:
                self.stderr.seek(0)
                raise AssertionError(f"it ended before {word!r}:\n{self.stderr.read()[-3000:]}")
            self.said[line[0]] = line[1:]
        return self.said[word]

    def sundog(self, *command: str, typed: str = "", check: bool = True) -> str:
        """What a command prints."""
        which = "--address" if command[0] == "debug" else "--session"
        done = subprocess.run(
            [sys.executable, "-m", "sundog.cli", *command, which, self.said["session"][0]],
            cwd=self.folder,
            env=self.environ,
            input=typed,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert not check or done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def wait_for(self, command: tuple[str, ...], text: str) -> str:
        """Ask again until the answer has a text in it."""
        until = time.monotonic() + 120
        while text not in (answer := self.sundog(*command, check=False)):
            assert time.monotonic() < until, answer
            time.sleep(0.5)
        return answer


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    job = Job(tmp_path_factory.mktemp("nodes"))
    try:
        job.until("hung")
        job.stack = job.wait_for(("stack",), "hang (")  # type: ignore[attr-defined]
        job.measured = job.sundog("profile", "attach", "all", "--wall", "--seconds", "2")  # type: ignore[attr-defined]
        job.until("paused")
        job.wait_for(("debug", "--list"), "ponder")
        job.debugged = job.sundog("debug", typed="p secret * 100\nc\n")  # type: ignore[attr-defined]
        job.until("pondered")
        job.until("total")
        assert job.process.stdin is not None
        job.process.stdin.write("\n")
        assert job.process.wait(120) == 0
        yield job
    finally:
        job.process.kill()
        job.process.wait()
        job.stderr.close()


def test_a_clock_that_is_100_s_ahead_lets_no_task_start_before_its_submission(job: Job) -> None:
    assert 90 < int(job.said["clock"][0]) < 200  # it was ahead, as seen by the program
    found = read_session(job.said["session"][0])
    far = [row for row in found.tasks if row.name in ("clock", "halve", "hang", "ponder")]
    assert len(far) == 4
    end_s = max(row.end_s or 0.0 for row in found.tasks if row.name == "total")
    for row in found.tasks:
        assert row.start_s is not None and row.submit_s <= row.start_s <= (row.end_s or 0.0)
        assert row.start_s < end_s + 1  # not in the future of the driver's clock
    page = job.folder / "t.json"
    job.sundog("timeline", "-o", str(page))
    shown = json.loads(page.read_text())
    shown = shown if isinstance(shown, list) else shown["traceEvents"]
    submitted = {row.task_id.hex(): row.submit_s for row in found.tasks}
    runs = [each for each in shown if each["ph"] == "X" and each.get("cat") == "task"]
    assert runs
    assert all(each["ts"] / 1e6 >= submitted[each["args"]["task_id"]] - 1e-6 for each in runs)


def test_the_answer_is_right_although_a_node_was_killed(job: Job) -> None:
    assert job.said["total"] == [str(sum(range(30)))]


def test_why_names_the_node_that_was_lost(job: Job) -> None:
    node = job.said["killed"][0]
    story = job.sundog("why", node)
    assert f"node {node} was lost" in story and "make()" in story
    again = next(row for row in read_session(job.said["session"][0]).tasks if row.attempt)
    assert f"attempt 0 ran on node {node[:8]}, which was lost" in job.sundog("why", again.task_id.hex())


def test_the_timeline_shows_the_loss_and_that_results_were_made_again(job: Job) -> None:
    page = job.folder / "lost.json"
    job.sundog("timeline", "-o", str(page))
    shown = json.loads(page.read_text())
    shown = shown if isinstance(shown, list) else shown["traceEvents"]
    node = job.said["killed"][0][:8]
    [gone] = [each for each in shown if each["name"] == f"node {node} is gone"]
    again = [each for each in shown if each["ph"] == "X" and each.get("args", {}).get("attempt") == 1]
    assert again and {each["name"] for each in again} <= {"make", "total"}
    groups = {each["args"]["name"]: each["pid"] for each in shown if each["name"] == "process_name"}
    assert all(each["pid"] != groups[f"node {node}"] for each in again)
    assert len([name for name in groups if name.startswith("node ")]) >= 3 and gone["cat"] == "node"


def test_at_most_one_interval_is_missing_and_every_such_row_is_marked(job: Job) -> None:
    node, killed_s = job.said["killed"][0], float(job.said["killed"][1])
    ran = []  # what the tasks wrote themselves, wherever they ran
    for path in job.folder.glob("made-*"):
        ran += [(line.split()[0], float(line.split()[1])) for line in path.read_text().splitlines()]
    there = [at_s for where, at_s in ran if where == node]
    assert len(there) >= 10
    with opened_index(job.said["session"][0]) as index:
        rows = index.rows(
            "SELECT a.end_s, a.flags FROM attempts a JOIN processes p ON p.id = a.process "
            "JOIN names n ON n.id = a.name WHERE n.text = 'make' AND p.node_id = ?",
            bytes.fromhex(node),
        )
    told = [end_s for end_s, flags in rows if flags & events.TOLD]
    assert len(rows) == len(there)  # no run is missing: it has its own row, or one that is marked
    assert all(killed_s - end_s < PUSH_S + LATENESS_S for end_s in told)


def test_a_task_that_failed_on_another_node_is_replayed_here(job: Job) -> None:
    assert job.said["failed"] == ["ValueError:", "3", "is", "odd"]
    task = next(row for row in read_session(job.said["session"][0]).tasks if row.name == "halve")
    said = job.sundog("replay", task.task_id.hex(), check=False)
    assert "3 is odd" in said and "same" in said


def test_stack_shows_where_a_task_on_another_node_hangs(job: Job) -> None:
    text = job.stack  # type: ignore[attr-defined]
    assert re.search(r"hang \(.*three_nodes\.py", text)


def test_a_profile_of_all_workers_has_what_runs_on_another_node(job: Job) -> None:
    assert re.search(r"hang .*\d", job.measured)  # type: ignore[attr-defined]


def test_a_breakpoint_in_a_task_on_another_node(job: Job) -> None:
    assert "4100" in job.debugged  # type: ignore[attr-defined]
    assert job.said["pondered"] == ["42"]
