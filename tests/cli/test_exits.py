"""Errors become exit codes and one line on stderr, in one place."""

import os
import subprocess
import sys
from collections.abc import Callable

import click
import pytest
from click.testing import Result

from sundog.cli import exits
from sundog.exceptions import RaySystemError
from tests.cli.conftest import FakeInfo, FakeSessions

Sundog = Callable[..., Result]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (click.exceptions.Exit(9), 9),
        (click.UsageError("no such option"), 2),
        (click.BadParameter("not a number"), 2),
        (exits.CommandError("did not work"), 1),
        (exits.NoSession(), 3),
        (ConnectionRefusedError("nobody there"), 4),
        (TimeoutError("no answer"), 4),
        (EOFError(), 4),
        (click.Abort(), 130),
        (KeyboardInterrupt(), 130),
        (BrokenPipeError(), 1),
        (RaySystemError("broken"), 1),
        (ValueError("num_cpus must be zero or more"), 1),
        (ZeroDivisionError(), 1),
    ],
)
def test_each_error_has_its_code(error: BaseException, code: int) -> None:
    assert exits.code_of(error) == code


def test_every_code_stands_in_the_table_that_readers_see() -> None:
    assert exits.__doc__ is not None
    documented = {int(line.split()[0]) for line in exits.__doc__.splitlines() if line.strip()[:1].isdigit()}
    codes = {value for name, value in vars(exits).items() if name.isupper() and isinstance(value, int)}
    assert documented == codes


def test_a_node_that_hangs_up_is_said_in_one_line(sundog: Sundog, sessions: FakeSessions) -> None:
    sessions.live = [FakeInfo()]
    sessions.failure = ConnectionResetError("peer went away")
    result = sundog("status")
    assert result.exit_code == exits.NO_ANSWER
    assert "did not answer (ConnectionResetError: peer went away)" in result.stderr
    assert "Traceback" not in result.output


def test_an_error_written_for_the_reader_is_shown_without_a_traceback(
    sundog: Sundog, sessions: FakeSessions
) -> None:
    sessions.failure = RaySystemError("the shared memory folder is read-only")
    result = sundog("start", "--head")
    assert result.exit_code == exits.FAILED
    assert "sundog: the shared memory folder is read-only" in result.stderr


def test_an_error_of_our_own_making_keeps_its_traceback(sundog: Sundog, sessions: FakeSessions) -> None:
    sessions.failure = AttributeError("a bug")
    assert isinstance(sundog("start", "--head").exception, AttributeError)


def test_a_reader_that_goes_away_ends_the_command_quietly() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "sundog.cli", "--help"],
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=120,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (exits.FAILED, "")


@pytest.mark.parametrize(("read", "code", "told"), [(True, 4, "did not answer"), (False, 1, "")])
def test_a_broken_pipe_of_the_session_is_told_and_one_of_our_own_output_is_not(
    read: bool, code: int, told: str
) -> None:
    program = (
        "import sys; from sundog.cli import exits; sys.stdin.read()\n"
        "with exits.mapped():\n    raise BrokenPipeError(32, 'Broken pipe')"
    )
    out = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", program], stdin=out, stdout=out, stderr=out, text=True)
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    if not read:
        process.stdout.close()
    process.stdin.close()
    errors = process.stderr.read()
    assert process.wait() == code
    assert (told in errors) and bool(told) == bool(errors)
    process.stdout.close()
    process.stderr.close()
