"""Driver programs of their own, for tests that signal them or read all they print. They must end by themselves."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

HEAD = """
import sys, time
import sundog

@sundog.remote
def sleep(seconds):
    time.sleep(seconds)

@sundog.remote
def six():
    return 6

def say(*words):
    print(*words, flush=True)

def finish():
    assert sundog.get([six.remote() for _ in range(20)], timeout=120) == [6] * 20
    assert len(sundog.wait([six.remote()], timeout=120)[0]) == 1
    say("usable")
    sundog.shutdown()
    say("done")
"""


@contextmanager
def driver(body: str) -> Iterator[subprocess.Popen[str]]:
    """Run a driver program of its own; it must end by itself."""
    program = subprocess.Popen(
        [sys.executable, "-c", HEAD + textwrap.dedent(body)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path)),
        start_new_session=True,
    )
    try:
        yield program
    finally:
        program.kill()
        program.communicate()


def expect(program: subprocess.Popen[str], word: str) -> None:
    """Read the next line a driver says."""
    assert program.stdout is not None
    line = program.stdout.readline().strip()
    if line != word:
        program.kill()
        rest = program.communicate()
        pytest.fail(f"expected {word!r}, got {line!r}; then:\n{rest[0]}\n{rest[1]}")
