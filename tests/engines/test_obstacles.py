"""What is said when a session cannot be started: the setting or the limit by name."""

from __future__ import annotations

import errno
import os
import resource

import pytest

from sundog.engines import obstacles
from sundog.exceptions import RaySystemError
from sundog.node.failed_starts import FailedStarts
from sundog.state.leases import FIRST_BACKOFF_S, LAST_BACKOFF_S
from sundog.system import process_limit
from sundog.wire.control import StartFailed


def error(number: int, path: str | None = None) -> OSError:
    return OSError(number, os.strerror(number), path)


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (error(errno.EMFILE), ["file descriptors", "ulimit -n"]),
        (error(errno.EAGAIN), ["ulimit -u"]),
        (RuntimeError("can't start new thread"), ["can't start new thread", "ulimit -u"]),
        (error(errno.ENOSPC, "/full/session"), ["/full/session", "df -h", "_temp_dir"]),
        (error(errno.EDQUOT, "/quota/session"), ["/quota/session", "quota -s", "_temp_dir"]),
        (error(errno.EROFS, "/read/session"), ["/read/session", "Read-only", "_temp_dir"]),
        (error(errno.EACCES, "/closed/session"), ["/closed/session", "Permission denied", "_temp_dir"]),
        (error(errno.EIO, "/elsewhere"), ["Input/output error", "/elsewhere"]),
    ],
)
def test_an_error_of_the_system_becomes_one_sentence(cause: OSError | RuntimeError, words: list[str]) -> None:
    told = str(obstacles.explained(cause))
    assert all(word in told for word in words), told
    assert "\n" not in told


def test_a_place_like_this_one_is_good_enough() -> None:
    obstacles.check()


def test_files_that_must_stay_too_small_are_told_with_the_limit_to_raise() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(RaySystemError, match=r"4,096 bytes at most.*ulimit -f"):
            obstacles.check()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_the_limit_of_processes_is_named() -> None:
    assert "ulimit -u" in process_limit.text() or "no limit of its own" in process_limit.text()


class Node:
    """As much of a node as FailedStarts uses."""

    node_id = b"n"
    jobs: dict[str, object] = {}
    processes: dict[bytes, object] = {}

    def __init__(self) -> None:
        self.clock = 0.0
        self.delays: list[int] = []
        self.lines: list[str] = []
        self.leases = self

    def now(self) -> float:
        return self.clock

    def log(self, text: str) -> None:
        self.lines.append(text)

    def delay_starts(self, node_id: bytes, env_key: str, failures: int, now: float) -> None:
        self.delays.append(failures)


class Process:
    env_key = "job:"
    node_id = b"node"
    kill_reason = ""
    intended = True


def test_failures_in_a_row_are_counted_and_an_old_one_is_forgotten() -> None:
    node = Node()
    starts = FailedStarts(node)  # type: ignore[arg-type]
    for moment in (0.0, 1.0, 2.0, 100.0):
        node.clock = moment
        process = Process()
        starts.told(process, StartFailed("no thread."))  # type: ignore[arg-type]
        assert process.kill_reason == "it could not start: no thread" and not process.intended
    assert node.delays == [1, 2, 3, 1] and len(node.lines) == 4
    assert FIRST_BACKOFF_S < LAST_BACKOFF_S
