"""Programs that run as another user of the machine, for tests of what such a user cannot do.

Owns the stranger's user id, the folder that strangers and victims share (like /tmp: anyone may write, the sticky bit is
set), and the running of programs under a user id. Only root can become another user: elsewhere these tests are skipped,
and say so. Where the interpreter lies in a folder that others cannot enter, such as root's own, they get the capability
to read and search anywhere: an attacker who can look at everything is no weaker, and still can change nothing.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.drivers import SOURCE
from tests.integration.gates import TIMEOUT_S

STRANGER, VICTIM = 54321, 54322  # no account needs to exist: the kernel knows numbers only


# A session starts programs too, which find the interpreter by its path.
_SPAWN = """
import subprocess, sys
subprocess.run([sys.executable, "-c", "import sundog, cloudpickle, psutil"], check=True)
"""
_READS_ALL = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]


@functools.cache
def _become() -> list[str] | str:
    """What to put before a command so that it runs as another user, but for the user; or why that cannot be."""
    if os.geteuid() != 0:
        return "only root can run a program as another user"
    if shutil.which("setpriv") is None:
        return "there is no setpriv to run a program as another user with"
    said = ""
    for capabilities in ([], _READS_ALL):
        command = ["setpriv", "--clear-groups", *capabilities]
        done = _run(STRANGER, _SPAWN, {}, become=command)
        if done.returncode == 0:
            return command
        said = done.stderr.strip()
    return f"another user cannot use this Python: {said}"


@contextlib.contextmanager
def shared_folder() -> Iterator[Path]:
    """A folder like /tmp; skips the test where there can be no stranger to share it with."""
    if isinstance(why := _become(), str):
        pytest.skip(why)
    folder = Path(tempfile.mkdtemp(prefix="sd-shared-", dir="/tmp"))
    folder.chmod(0o1777)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _command(
    uid: int, program: str, arguments: tuple[str, ...], become: list[str] | None = None
) -> list[str]:
    become = become or list(_become())
    user = [f"--reuid={uid}", f"--regid={uid}"]
    return [*become, *user, sys.executable, "-u", "-c", textwrap.dedent(program), *arguments]


def _environ(environ: dict[str, str]) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": SOURCE, "HOME": "/", **environ}


def _run(
    uid: int,
    program: str,
    environ: dict[str, str],
    *arguments: str,
    umask: int = 0o022,
    become: list[str] | None = None,
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        _command(uid, program, arguments, become),
        umask=umask,
        cwd="/",
        env=_environ(environ),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )


def run_as(
    uid: int, program: str, *arguments: str, umask: int = 0o022, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end as a user. It must succeed."""
    done = _run(uid, program, environ, *arguments, umask=umask)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@contextlib.contextmanager
def running_as(uid: int, program: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A program of a user for the length of a with-block, which begins when the program has printed a line."""
    process = subprocess.Popen(
        _command(uid, program, arguments),
        cwd="/",
        env=_environ({}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None and process.stdout.readline(), "the program ended"
        yield process
    finally:
        process.kill()
        process.communicate()
