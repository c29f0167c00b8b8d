"""The one place that turns errors into exit codes and into what the terminal shows.

    code  meaning
    0     done
    1     the command failed; the last line on stderr says why (nothing is said to a closed pipe)
    2     the command line was wrong (also: an option's value)
    3     there is no session to talk to
    4     a session did not answer, or ended while it was asked
    130   interrupted (Ctrl-C)

A script under `sundog run` is not subject to this table: it ends with the code it would have under
`python`. Prints no traceback for an error that the user can correct, and one for a defect of sundog. Runs in
the terminal's process, main thread.
"""

import difflib
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import click

OK = 0
FAILED = 1
USAGE = 2
NO_SESSION = 3
NO_ANSWER = 4
INTERRUPTED = 130


class CommandError(click.ClickException):
    """A command could not do what was asked: the message says what happened and the next command to try."""

    exit_code = FAILED

    def show(self, file: object = None) -> None:
        click.echo(f"sundog: {self.message}", err=True)


class NoSession(CommandError):
    """There is no live session where the command looked."""

    exit_code = NO_SESSION

    def __init__(self, where: str | None = None) -> None:
        self.where = where
        super().__init__(
            f"no session is running{f' below {where}' if where else ''}. "
            "Start one with: sundog start --head (a program's own init() starts one for as long as it runs)"
        )


class UnfitSession(CommandError):
    """No session is meant by `--session`, or it is not one that can do what was asked."""

    exit_code = NO_SESSION


def code_of(error: BaseException) -> int:
    """The exit code for an error that left a command."""
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, click.ClickException):
        return error.exit_code
    if isinstance(error, BrokenPipeError):
        # The reader of this command's output went away (`sundog status | head -1`), not a session: only the
        # class is ConnectionError. click and rich exit with 1 in this case, and so does sundog.
        return FAILED
    if isinstance(error, ConnectionError | TimeoutError | EOFError):
        return NO_ANSWER
    return FAILED


@contextmanager
def mapped() -> Iterator[None]:
    """Leave the process with the right code when what runs inside raises."""
    try:
        yield
        sys.stdout.flush()
    except (click.exceptions.Exit, click.Abort, KeyboardInterrupt) as error:
        _leave(code_of(error))
    except click.ClickException as error:
        error.show()
        _leave(code_of(error))
    except BrokenPipeError as error:
        if not _is_output_closed():
            _say_no_answer(error)  # the session ended before it answered
            _leave(NO_ANSWER)
        # Python flushes stdout once more at its end; without this line it would report the same pipe again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _leave(code_of(error))
    except (ConnectionError, TimeoutError, EOFError) as error:
        _say_no_answer(error)
        _leave(code_of(error))
    except Exception as error:
        if not _is_for_the_user(error):
            raise
        click.echo(f"sundog: {error}", err=True)
        _leave(code_of(error))


def _say_no_answer(error: Exception) -> None:
    click.echo(
        f"sundog: the session did not answer ({type(error).__name__}: {error}). It may just have ended. "
        "See what is running with: sundog status",
        err=True,
    )


def _is_output_closed() -> bool:
    """Whether the reader of our output is gone. A broken pipe may also be that of a session."""
    try:
        looked = select.poll()
        for file in (sys.stdout, sys.stderr):
            # a pipe without a reader is reported even if nothing is asked for
            looked.register(file.fileno(), 0)
        return bool(looked.poll(0))
    except (OSError, ValueError):  # not a real file: a test, or closed by sundog
        return True


def raise_unknown_command(name: str, known: list[str], ctx: click.Context) -> NoReturn:
    """A wrong command is answered with the closest right one."""
    close = difflib.get_close_matches(name, known, n=1)
    if name.endswith(".py"):
        hint = f" To run a script: sundog run {name}"
    elif close:
        hint = f" Did you mean: sundog {close[0]}"
    else:
        hint = " See: sundog --help"
    raise click.UsageError(f"there is no command {name!r}.{hint}", ctx=ctx)


def _is_for_the_user(error: Exception) -> bool:
    """Errors whose text is written for the reader: sundog's own, a bad value, a file that cannot be had."""
    from sundog.exceptions import RayError

    return isinstance(error, RayError | ValueError | OSError)


def _leave(code: int) -> NoReturn:
    # `from None`: what the terminal shows was decided above.
    raise SystemExit(code) from None
