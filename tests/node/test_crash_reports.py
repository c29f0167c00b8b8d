"""Reports of the fault handler in a log: one line each, and nothing else lost."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from sundog.node.crash_reports import CrashReports


def folded(*batches: list[str]) -> list[str]:
    reports = CrashReports("/x/worker.err")
    return [text for batch in batches for _, text in reports.fold([("f", line) for line in batch])]


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT])
def test_a_real_report_becomes_one_line(number: signal.Signals) -> None:
    code = (
        "import faulthandler, threading, time, os; faulthandler.enable()\n"
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        f"os.kill(os.getpid(), {int(number)})"
    )
    written = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr
    lines = written.splitlines()
    assert len(lines) > 5
    (only,) = folded(["before", *lines[:3]], lines[3:])[1:]
    assert only == f"{lines[0]} (its stack is in the error of the task; all stacks: /x/worker.err)"


def test_what_follows_a_report_is_shown() -> None:
    report = [
        "Fatal Python error: Aborted",
        "",
        "Thread 0x7f (most recent call first):",
        '  File "a", line 1 in b',
    ]
    lines = [*report, "on"]
    assert folded(lines)[1:] == ["on"]
    assert folded(["one", "", "two"]) == ["one", "", "two"]
