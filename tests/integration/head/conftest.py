"""A session with a head process, and a client that shows its token."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from sundog.engines import heads, sessions
from tests.integration.gates import await_true


class Head:
    """A running session of `sundog start --head`, as its clients see it."""

    def __init__(self, info: sessions.SessionInfo, **settings: Any) -> None:
        self.session = info
        found = heads.read_head(info.path)
        assert found is not None
        self.info = found
        self.client = httpx.Client(
            base_url=found.url, headers={"authorization": f"Bearer {found.token}"}, timeout=60
        )

    def get(self, path: str, **query: Any) -> Any:
        """The JSON of an address."""
        answer = self.client.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def pid(self) -> int:
        """The pid of the head process."""
        children = Path(f"/proc/{self.session.node_pid}/task/{self.session.node_pid}/children")
        for pid in children.read_text().split():
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            if b"sundog::head" in words or b"sundog.head.program" in words:
                return int(pid)
        return 0

    def stop(self) -> None:
        """End the session."""
        self.client.close()
        if sessions.is_alive(self.session.path):
            sessions.stop_session(self.session)

    def log(self) -> str:
        """What the head process wrote."""
        return Path(self.session.path, "logs", "head.log").read_text()


def start(**settings: Any) -> Head:
    """Start a session with a head process on a free port, and wait until it answers."""
    head = heads.make_head(None, 0)
    with head.listener:
        info = sessions.start_head(head=head, num_cpus=2, **settings)
    return Head(info)


@pytest.fixture
def head(leak_check: Path) -> Iterator[Head]:
    """A session with a head process; it ends with the test."""
    made = start()
    yield made
    made.stop()


Sundog = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def sundog(leak_check: Path) -> Sundog:
    """The command line in its own process."""

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "sundog.cli", *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            stdin=subprocess.DEVNULL,
        )

    return call


def ended(pid: int) -> bool:
    """Whether a process is gone."""
    return not os.path.exists(f"/proc/{pid}")


def await_end(pid: int) -> None:
    """Wait until a process is gone."""
    await_true(lambda: ended(pid), f"the end of process {pid}")
