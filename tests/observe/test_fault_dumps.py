"""Stacks through the fault handler: real processes that cannot run Python, and the parsing of its text."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sundog.observe import fault_dumps
from sundog.observe.fault_dumps import Patience, Silence, ask, parse, processor_time, state_of
from sundog.owner.fault_dumps import FILE, SIGNAL, mark
from sundog.owner.stacks import PACKAGE_DIR
from sundog.wire.looks import ProcessStacks

PROGRAM = """
import faulthandler, sys, time
file = open(sys.argv[1], "ab")
faulthandler.register({signal}, file=file, all_threads=True)
def in_here():
    print("ready", flush=True)
    time.sleep(600)
in_here()
"""


@contextmanager
def a_process(tmp_path: Path, program: str) -> Iterator[subprocess.Popen[str]]:
    (tmp_path / FILE).touch()
    command = [sys.executable, "-c", program, str(tmp_path / FILE)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def test_a_process_with_a_fault_handler_tells_its_stack(tmp_path: Path) -> None:
    with a_process(tmp_path, PROGRAM.format(signal=int(SIGNAL))) as process:
        found = ask(str(tmp_path), process.pid)
        assert isinstance(found, ProcessStacks)
        assert [frame.function for frame in found.threads[0].frames] == ["in_here", "<module>"]
        assert (tmp_path / FILE).stat().st_size == 0, "the next dump begins at the start again"
        assert isinstance(ask(str(tmp_path), process.pid), ProcessStacks), "and once more"


def test_a_process_that_does_not_listen_is_not_sent_the_signal(tmp_path: Path) -> None:
    with a_process(tmp_path, "print('ready', flush=True); import time; time.sleep(600)") as process:
        found = ask(str(tmp_path), process.pid)
        assert isinstance(found, Silence) and "does not listen" in found.why
        assert process.poll() is None


def test_a_process_that_is_stopped_is_told_as_that_with_the_command_to_let_it_go_on(tmp_path: Path) -> None:
    with a_process(tmp_path, PROGRAM.format(signal=int(SIGNAL))) as process:
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        found = ask(str(tmp_path), process.pid)
        assert isinstance(found, Silence) and found.stopped and f"kill -CONT {process.pid}" in found.why


def test_a_process_that_has_ended_says_so(tmp_path: Path) -> None:
    with a_process(tmp_path, PROGRAM.format(signal=int(SIGNAL))) as process:
        process.kill()
        process.wait()
    assert ask(str(tmp_path), process.pid) == Silence("it has ended")
    assert state_of(process.pid) == ""


def test_a_program_that_handles_the_signal_itself_is_left_alone(tmp_path: Path) -> None:
    with a_process(tmp_path, PROGRAM.format(signal=int(SIGNAL))) as process:
        Path(mark(str(tmp_path / FILE), process.pid)).touch()
        found = ask(str(tmp_path), process.pid)
        assert isinstance(found, Silence) and "handles signal" in found.why


DUMP = f"""Thread 0x00007f01 (most recent call first):
  File "{PACKAGE_DIR}owner/reactor.py", line 10 in _read
  File "/usr/lib/python3.11/threading.py", line 982 in run
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

Thread 0x00007f02 [loader] (most recent call first):
  File "/home/me/load.py", line 7 in load
  File "/usr/lib/python3.11/threading.py", line 982 in run
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

Current thread 0x00007f03 (most recent call first):
  File "/home/me/train.py", line ??? in step
  File "{PACKAGE_DIR}worker/executor.py", line 99 in run
  File "{PACKAGE_DIR}worker/process.py", line 5 in main
"""


def test_the_main_thread_comes_first_then_the_users_then_ours() -> None:
    main, loader, ours = parse(DUMP)
    assert (main.name, loader.name, ours.ours) == ("MainThread", "loader", True)
    assert not main.ours and not loader.ours


def test_frames_below_the_task_are_left_out_and_an_unknown_line_is_zero() -> None:
    main = parse(DUMP)[0]
    assert [(frame.function, frame.line) for frame in main.frames] == [("step", 0), ("run", 99)]


def test_a_text_that_is_no_dump_has_no_threads() -> None:
    assert parse("") == [] and parse("something else\n") == []


HALF = """
import os, signal, sys, time
file = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
def write_in_pieces(number, frame):
    signal.pthread_sigmask(signal.SIG_BLOCK, [{signal}])  # as the kernel does while the fault handler runs
    os.write(file, b'Current thread 0x1 (most recent call first):\\n')
    time.sleep(0.3)
    os.write(file, b'  File "a.py", line 1 in late\\n')
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [{signal}])
signal.signal({signal}, write_in_pieces)
print("ready", flush=True)
while True:
    time.sleep(600)
"""


def test_a_dump_that_pauses_in_the_middle_is_read_to_its_end(tmp_path: Path) -> None:
    with a_process(tmp_path, HALF.format(signal=int(SIGNAL))) as process:
        found = ask(str(tmp_path), process.pid)
        assert isinstance(found, ProcessStacks)
        assert [frame.function for frame in found.threads[0].frames] == ["late"]


class Clockwork:
    """A process as the kernel shows it: a clock, a state and the processor time that it had."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.ran, self.state = 100.0, 5, "R"
        monkeypatch.setattr("sundog.observe.fault_dumps.time.monotonic", lambda: self.now)
        monkeypatch.setattr(fault_dumps, "processor_time", lambda pid: self.ran)
        monkeypatch.setattr(fault_dumps, "state_of", lambda pid: self.state)


def looks(clock: Clockwork, patience: Patience, *, runs: bool) -> int:
    """How many seconds an answer is awaited."""
    began = clock.now
    while patience.lasts():
        clock.now += 0.5
        clock.ran += runs
    return int(clock.now - began)


def test_time_in_which_a_process_waits_for_a_processor_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clockwork(monkeypatch)
    assert looks(clock, Patience(7), runs=True) == 2
    assert looks(clock, Patience(7), runs=False) == 30, "bounded, for it may never get one"
    clock.state = "S"
    assert looks(clock, Patience(7), runs=False) == 2


def test_the_processor_time_of_a_process_is_that_of_its_main_thread() -> None:
    before = processor_time(os.getpid())
    sum(range(1_000_000))
    assert processor_time(os.getpid()) > before > 0
    assert processor_time(1 << 30) == 0
