"""The leak checker against real leaks: each test makes one, sees it named, and clears it away."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests import leaks

pytest_plugins = ["pytester"]

SLEEPER = "import sys; sys.stdout.write('up'); sys.stdout.flush(); sys.stdin.read()"
# Starts a process that outlives it and belongs to nobody's tree: it is the reaper's child once this one ends.
ORPHAN_MAKER = """
import subprocess, sys
quiet = subprocess.DEVNULL
sleeps = "import os, time; os.write(1, b'up'); os.close(1); time.sleep(50)"
command = [sys.executable, "-c", sleeps, *sys.argv[1:]]
orphan = subprocess.Popen(command, start_new_session=True, stdin=quiet, stdout=subprocess.PIPE, stderr=quiet)
assert orphan.stdout.read(2) == b"up"
print(orphan.pid)
"""

Start = Callable[[], "subprocess.Popen[bytes]"]


def start_orphan(*arguments: str, environ: dict[str, str] | None = None) -> psutil.Process:
    command = [sys.executable, "-c", ORPHAN_MAKER, *arguments]
    made = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environ)
    return psutil.Process(int(made.stdout))


@pytest.fixture
def before(leak_check: Path) -> leaks.Snapshot:
    return leaks.Snapshot.take(str(leak_check))


@pytest.fixture
def sleeper() -> Iterator[Start]:
    """Starts a child that has said it runs, and lives until its stdin is closed."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        child = subprocess.Popen(
            [sys.executable, "-c", SLEEPER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        started.append(child)
        assert child.stdout is not None
        assert child.stdout.read(2) == b"up"
        return child

    yield start
    for child in started:
        child.communicate()


def test_a_test_that_leaves_nothing_has_no_leaks(before: leaks.Snapshot) -> None:
    assert leaks.find(before) == []


def test_a_child_process_is_reported_with_its_pid_and_command(before: leaks.Snapshot, sleeper: Start) -> None:
    child = sleeper()

    found = leaks.find(before, grace_s=0)

    assert [leak for leak in found if leak.startswith(f"process {child.pid} ") and "sys.stdin.read" in leak]


def test_a_child_that_was_never_waited_for_is_reported_as_a_zombie(before: leaks.Snapshot) -> None:
    pid = os.posix_spawn(sys.executable, [sys.executable, "-c", ""], {})
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)

    found = leaks.find(before, grace_s=0)

    os.waitpid(pid, 0)
    assert [leak for leak in found if leak.startswith(f"process {pid} (zombie")]


def test_an_orphan_that_left_our_process_tree_is_still_found_by_its_marker(before: leaks.Snapshot) -> None:
    orphan = start_orphan()
    assert orphan.pid not in {child.pid for child in psutil.Process().children(recursive=True)}

    found = leaks.find(before, grace_s=0)
    leaks.kill_processes(before)

    assert [leak for leak in found if leak.startswith(f"process {orphan.pid} ")]
    gone, _ = psutil.wait_procs([orphan], timeout=120)
    assert gone == [orphan]


def test_a_process_with_an_open_file_below_the_marker_is_found(
    before: leaks.Snapshot, leak_check: Path
) -> None:
    leak_check.mkdir()
    with (leak_check / "log").open("w") as log:
        child = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, stdout=log, env={}
        )
        assert leaks._mentions(child.pid, [str(leak_check).encode()])
        child.communicate()


def test_a_thread_is_reported_by_name(before: leaks.Snapshot) -> None:
    release = threading.Event()
    thread = threading.Thread(target=release.wait, name="forgotten-reader", daemon=True)
    thread.start()

    found = leaks.find(before, grace_s=0)

    release.set()
    thread.join()
    assert len(found) == 1
    assert found[0].startswith("daemon thread 'forgotten-reader'")


def test_a_file_descriptor_is_reported_with_its_target(before: leaks.Snapshot, tmp_path: Path) -> None:
    path = tmp_path / "open-for-ever"
    fd = os.open(path, os.O_CREAT | os.O_WRONLY)

    found = leaks.find(before, grace_s=0)

    os.close(fd)
    assert found == [f"fd {fd} -> {path}"]


def test_a_descriptor_number_that_was_closed_and_used_again_is_reported(leak_check: Path) -> None:
    first, second = socket.socketpair()
    before = leaks.Snapshot.take(str(leak_check))
    number = first.fileno()
    first.close()
    second.close()
    fd = os.open("/dev/null", os.O_RDONLY)
    assert fd == number

    found = leaks.find(before, grace_s=0)

    os.close(fd)
    assert found == [f"fd {number} -> /dev/null"]


def test_a_shared_memory_segment_is_reported_by_path(before: leaks.Snapshot, leak_check: Path) -> None:
    segment = leaks.SHM_DIR / f"sundog-{uuid.uuid4().hex}"
    # It gets its name when it is whole: a test run beside this one shall see at once whose it is.
    unnamed = leaks.SHM_DIR / f"unnamed-{segment.name}"
    unnamed.mkdir()
    (unnamed / ".session").symlink_to(leak_check / "session")
    unnamed.rename(segment)
    try:
        assert leaks.find(before, grace_s=0) == [f"shared memory {segment}"]
    finally:
        shutil.rmtree(segment)


def test_a_segment_that_another_session_uses_is_not_ours(before: leaks.Snapshot) -> None:
    # Outside our tree, without our marker, and naming the session: so looks a second test run.
    segment = leaks.SHM_DIR / f"sundog-{uuid.uuid4().hex}"
    foreign = start_orphan(segment.name, environ={})
    try:
        segment.write_bytes(b"in use")
        assert leaks.find(before, grace_s=0) == []
    finally:
        segment.unlink()
        foreign.kill()
        psutil.wait_procs([foreign], timeout=120)


def test_what_only_a_reference_cycle_keeps_open_is_no_leak(before: leaks.Snapshot) -> None:
    class Holder:
        def __init__(self) -> None:
            self.fd = os.open("/dev/null", os.O_RDONLY)
            self.me = self

        def __del__(self) -> None:
            os.close(self.fd)

    Holder()

    assert leaks.find(before, grace_s=0) == []


def test_what_vanishes_within_the_grace_is_no_leak(before: leaks.Snapshot) -> None:
    seen = threading.Event()
    thread = threading.Thread(target=seen.wait, args=(0.2,))
    thread.start()

    assert leaks.find(before, grace_s=30) == []


@pytest.fixture
def run_beside(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[..., pytest.RunResult]:
    """Runs test files in a pytest of their own, under our conftest and leak check."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # sundog's own is not there where a stand-in is
    folder = Path(__file__).parent
    pytester.makeconftest((folder / "conftest.py").read_text())
    # Less grace: what these tests leave stays for ever.
    source = (folder / "leaks.py").read_text().replace("GRACE_S = 20.0\n", "GRACE_S = 0.1\n")
    beside = pytester.mkdir("tests")
    (beside / "leaks.py").write_text(source)
    (beside / "both_engines.py").write_text((folder / "both_engines.py").read_text())
    pytester.makeini("[pytest]\npythonpath = .\naddopts = --import-mode=importlib")

    def run(**files: str) -> pytest.RunResult:
        pytester.makepyfile(**files)
        return pytester.runpytest_subprocess("-p", "no:cacheprovider")

    return run


def test_the_fixture_fails_a_leaking_test_names_the_leak_and_spares_the_next_test(
    run_beside: Callable[..., pytest.RunResult],
) -> None:
    result = run_beside(
        test_two="""
        import os

        def test_one_leaks_a_descriptor():
            os.open("/dev/null", os.O_RDONLY)

        def test_the_next_is_clean():
            pass
        """
    )

    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(
        ["*ERROR at teardown of test_one_leaks_a_descriptor*", "*- fd * -> /dev/null"]
    )


def test_sessions_are_shut_down_by_their_fixtures_and_a_forgotten_one_is_reported(
    run_beside: Callable[..., pytest.RunResult],
) -> None:
    # A stand-in for the runtime that has the three verbs which the fixtures use, and a thread to leak.
    result = run_beside(
        sundog="""
        import threading

        arguments, thread, stop = None, None, threading.Event()

        def init(**given):
            global arguments, thread
            arguments, thread = given, threading.Thread(target=stop.wait)
            thread.start()

        def is_initialized():
            return thread is not None

        def shutdown():
            global thread
            stop.set()
            thread.join()
            stop.clear()
            thread = None
        """,
        test_sessions="""
        def test_ray_has_four_cpus(ray):
            assert ray.is_initialized() and ray.arguments == {"num_cpus": 4}

        def test_a_session_takes_what_it_is_given(ray_session):
            ray = ray_session(num_cpus=1, namespace="n")
            assert ray.arguments == {"num_cpus": 1, "namespace": "n"}

        def test_a_session_may_be_ended_and_begun_again(ray_session):
            ray_session().shutdown()
            assert ray_session().is_initialized()

        def test_forgets_to_shut_down():
            import sundog
            sundog.init()

        def test_finds_no_session_of_an_earlier_test():
            import sundog
            assert not sundog.is_initialized()
        """,
    )

    result.assert_outcomes(passed=5, errors=1)
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_forgets_to_shut_down*", "*- a session: call *"])
