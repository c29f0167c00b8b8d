"""Ray's autoscaler (v2, its fake provider) from no worker to two and back, by what waits, with sundog's records."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sundog.observe.records import read_session
from tests.on_ray import autoscaling

PROGRAM = Path(__file__).parent / "programs" / "rush.py"
pytestmark = pytest.mark.timeout(600)


class Rush:
    """What the program and the commands said."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        self.environ = {**os.environ, "SUNDOG_TEMP_DIR": str(folder / "sessions"), "RAY_ADDRESS": address}
        self.said: dict[str, str] = {}
        self.waiting: dict[str, Any] = {}

    def sundog(self, *command: str) -> str:
        environ = {**self.environ, "SUNDOG_ENGINE": "local"}
        done = subprocess.run(
            [sys.executable, "-m", "sundog.cli", *command, "--session", self.said["session"]],
            env=environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def run(self) -> None:
        with open(self.folder / "stderr", "w+") as stderr:
            process = subprocess.Popen(
                [sys.executable, str(PROGRAM)],
                env=self.environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
            assert process.stdout is not None and process.stdin is not None
            try:
                for line in process.stdout:
                    word, _, rest = line.strip().partition(" ")
                    self.said[word] = rest
                    if word == "queued":
                        self.waiting = self._await_status()
                        process.stdin.write("\n")
                        process.stdin.flush()
                assert process.wait() == 0, (self.folder / "stderr").read_text()[-2000:]
            finally:
                process.kill()
                process.wait()

    def _await_status(self) -> Any:
        until = time.monotonic() + 120
        while True:
            found = json.loads(self.sundog("status", "--json"))
            if found["pending"] or time.monotonic() > until:
                return found
            time.sleep(0.2)


@pytest.fixture(scope="module")
def rush(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rush]:
    with autoscaling(2) as address:
        found = Rush(tmp_path_factory.mktemp("rush"), address)
        found.run()
        yield found


def test_two_nodes_come_by_what_waits_and_go_when_all_is_done(rush: Rush) -> None:
    assert (rush.said["before"], rush.said["scaled"], rush.said["after"]) == ("0", "2", "0")
    assert rush.said["sum"] == str(sum(range(16)))


def test_status_says_why_tasks_wait(rush: Rush) -> None:
    [demand] = rush.waiting["pending"]
    assert demand["shape"] == {"CPU": 1.0} and demand["count"] >= 1
    assert "no node has {CPU: 1}" in demand["why"] or "in use" in demand["why"]


def test_the_timeline_shows_the_nodes_that_come_and_go(rush: Rush) -> None:
    page = rush.folder / "t.json"
    rush.sundog("timeline", "-o", str(page))
    shown = json.loads(page.read_text())
    shown = shown if isinstance(shown, list) else shown["traceEvents"]
    marks = [each["name"] for each in shown if each.get("cat") == "node"]
    assert sum(mark.endswith("joined") for mark in marks) == 2
    assert sum(mark.endswith("is gone") for mark in marks) == 2
    rows = [row for row in read_session(rush.said["session"]).tasks if row.name == "work"]
    assert len(rows) == 16 and len({row.node_id for row in rows}) == 2


def test_why_says_that_the_autoscaler_ended_them(rush: Rush) -> None:
    node = next(row.node_id for row in read_session(rush.said["session"]).tasks if row.name == "work")
    assert node is not None
    story = rush.sundog("why", node if isinstance(node, str) else node.hex())
    assert "was ended" in story and "autoscaler" in story
