"""What is said when a session cannot be started: the setting or the limit by name."""

from __future__ import annotations

import errno
import os
import resource
import select
import sys

import pytest

from sundog import early
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
        (error(errno.ENFILE), ["The machine has used up its open files", "sysctl fs.file-max"]),
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


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
def test_shared_memory_that_cannot_be_made_is_told_with_its_own_setting(number: int) -> None:
    told = str(obstacles.explained(error(number, "/dev/shm/sundog-1-abc/to-0"), "/dev/shm"))
    assert "SUNDOG_shm_dir" in told and "temp_dir" not in told
    told = str(obstacles.explained(error(number, "/dev/shm/sundog-0/session_1/rings"), "/dev/shm"))
    assert "SUNDOG_temp_dir" in told and "shm_dir" not in told


def test_a_system_without_dev_null_is_told_how_to_make_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(obstacles, "_NULL", "/nowhere/null")
    with pytest.raises(RaySystemError, match="mknod -m 666 /nowhere/null c 1 3"):
        obstacles.check()


def test_a_program_that_does_not_know_its_python_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", None)
    early.begin()  # what init() does first
    with pytest.raises(RaySystemError, match=r"sys\.executable is empty"):
        obstacles.check()


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


@pytest.mark.parametrize("name", ["epoll", "poll"])
def test_a_program_that_took_away_what_waits_for_sockets_is_told_so(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(select, name)
    with pytest.raises(RaySystemError, match=r"gevent\.monkey\.patch_all\(select=False"):
        obstacles.check()


def test_a_python_that_cannot_be_run_is_told_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    told = str(obstacles.explained(error(errno.ENOENT, "/nonexistent/python")))
    assert "sys.executable" in told and "/nonexistent/python" in told and "No such file" in told
    assert "ulimit -u" in str(obstacles.explained(error(errno.EAGAIN, "/nonexistent/python")))
