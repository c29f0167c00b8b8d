"""`sundog replay`: a task that failed, run again in this terminal.

Owns the choice of the capsule and what is shown; the running is `capsules.replay`. Works on ended sessions. Runs in
the terminal's process, main thread: the task's code runs here.
"""

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import click

from sundog.cli import exits, rows
from sundog.cli.sessions import session_option
from sundog.printable import printable

if TYPE_CHECKING:
    from types import TracebackType

    from sundog.capsules.rows import Header

_EXAMPLES = rows.examples(
    ("sundog replay", "the task that failed last"),
    ("sundog replay ID --pdb", "this task, with pdb where it raises"),
    ("sundog replay resize --edit", "the last failure of resize(), after an edit of its file"),
    ("sundog replay ID --attempt 1", "the first attempt of a task that was retried"),
    ("sundog replay ID --session latest", "only in this session"),
)


@click.command("replay", short_help="Run a failed task again in this terminal.", epilog=_EXAMPLES)
@click.argument("task", required=False, metavar="[ID|FUNCTION]")
@click.option("--pdb", "with_pdb", is_flag=True, help="Start pdb at the line that raises.")
@click.option(
    "--edit", is_flag=True, help="Open the file of the function in $EDITOR first, then run the edited code."
)
@click.option(
    "--attempt",
    type=click.IntRange(min=1),
    default=None,
    help="This attempt of a task that was retried; 1 is the first. By default the last.",
)
@session_option
def command(task: str | None, with_pdb: bool, edit: bool, attempt: int | None, session: str | None) -> int:
    """Run a task that failed again, in this terminal's own process, and compare how it ends.

    The function, its arguments and its surroundings come from the capsule that every failed task leaves in the folder
    of its session, which may have ended. `sundog capsule list` shows what there is.
    """
    found = choose(task, session, attempt)
    if found is None:
        what = f"of {task} " if task else ""
        which = f"of attempt {attempt} " if attempt else ""
        raise exits.CommandError(
            f"there is no capsule {which}{what}in the sessions of this machine. A task leaves one when it raises, "
            "exits or runs longer than its timeout_s; one whose process dies, only with @remote(capsule=True). "
            "See: sundog capsule list"
        )
    return play(found[0], found[1], with_pdb=with_pdb, edit=edit)


def choose(task: str | None, session: str | None, attempt: int | None = None) -> "tuple[str, Header] | None":
    """The newest capsule that is meant: in one session, or in any."""
    from sundog.capsules import store
    from sundog.cli.sessions import opened
    from sundog.observe.sessions import all_sessions

    paths = [each.path for each in all_sessions()] if session is None else [opened(session).path]
    found = [each for each in store.find(paths, task or "") if attempt in (None, each.header.attempt + 1)]
    return (found[0].path, found[0].header) if found else None


def play(path: str, header: "Header", *, with_pdb: bool, edit: bool, is_shown: bool = False) -> int:
    """Run a capsule; the exit code says whether it ended as it did before. `is_shown`: its header was shown already."""
    from sundog.capsules import capture, replay
    from sundog.capsules import rows as capsules

    if not is_shown:
        show_header(header)
    if edit:
        _edit(header)
    if capsules.NAMED_RAY in header.options:
        from sundog import compat

        compat.install()
    contents = capsules.read_contents(path)
    replay.make_surroundings(contents)
    try:
        prepared = replay.prepare(header, contents, from_source=edit)
    except replay.CannotReplay as error:
        raise exits.CommandError(str(error)) from error.__cause__
    if prepared.remark:
        click.echo(prepared.remark)
    _warn_of_changes(header, prepared.function, edit)
    click.echo("─" * 60)
    begun = time.perf_counter()
    try:
        outcome = prepared.call()
    except replay.CannotReplay as error:
        raise exits.CommandError(str(error)) from error.__cause__
    except (
        Exception,
        SystemExit,
        KeyboardInterrupt,
        GeneratorExit,
    ) as error:  # Ctrl-C too: pdb shows where it was
        outcome = capture.outcome_of_error(error)
        _show(error)
        if with_pdb:
            _debug(error)
    click.echo("─" * 60)
    click.echo(f"{replay.compare(header.outcome, outcome)}  ({time.perf_counter() - begun:.3g} s)")
    return exits.OK if header.outcome.is_same(outcome) else exits.FAILED


def show_header(header: "Header") -> None:
    """What is known of a capsule, without opening it. The maker of the file wrote this, too."""
    made = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(header.made_s))
    from sundog.capsules.rows import NO_END

    name, session = printable(header.name), printable(header.session)
    click.echo(
        f"{name}  task {printable(header.task_id)}, attempt {header.attempt + 1}, of {made} in {session}"
    )
    click.echo("\n".join(map(printable, f"Then it {header.outcome.words()}".splitlines())))
    if header.outcome.error == NO_END:
        click.echo("If the task ended its process, it ends the process that runs it now, too.")


def _warn_of_changes(header: "Header", function: object, edited: bool) -> None:
    from sundog.capsules.capture import versions
    from sundog.serialize.fingerprint import fingerprint

    if not edited and header.kind == "task" and header.code and fingerprint(function) != header.code:
        click.echo("The code of the function has changed since: its module was edited.")
    now = versions()
    changed = [
        f"{name} {then} (now {now[name]})"
        for name, then in header.versions.items()
        if now.get(name, then) != then
    ]
    if changed:
        click.echo(f"Other versions: {', '.join(changed)}")


def _show(error: BaseException) -> None:
    """The traceback from the user's first frame on."""
    import traceback

    trace = _users_trace(error)
    sys.stdout.flush()
    # An error of the result has no line of the user's, and what it was made from is in its text.
    traceback.print_exception(type(error), error, trace, chain=trace is not None)
    sys.stderr.flush()


def _users_trace(error: BaseException) -> "TracebackType | None":
    import sundog
    from sundog.capsules import replay

    ours = os.path.dirname(os.path.abspath(sundog.__file__)) + os.sep
    trace = error.__traceback__
    while (
        trace is not None and trace.tb_next is not None and trace.tb_frame.f_code.co_filename.startswith(ours)
    ):
        trace = trace.tb_next
    # A coroutine is run by a loop of asyncio, and that by ours.
    each = trace
    while each is not None:
        if each.tb_frame.f_code.co_filename == replay.__file__ and each.tb_next is not None:
            trace = each.tb_next
        each = each.tb_next
    if trace is not None and trace.tb_next is None and trace.tb_frame.f_code.co_filename.startswith(ours):
        return None
    return trace


def _debug(error: BaseException) -> None:
    import pdb  # noqa: T100

    trace = _users_trace(error)
    if trace is None:
        click.echo("The function has returned, and its result cannot be sent: there is no line to stop at.")
        return
    click.echo("pdb, where it raised. q leaves.")
    pdb.post_mortem(trace)


def _edit(header: "Header") -> None:
    from sundog.config import user_environ

    path, _, line = header.source.rpartition(":")
    if not os.path.isfile(path):
        raise exits.CommandError(f"the file of {header.function} is not here: {path or 'unknown'}.")
    environ = user_environ()
    editor = environ.get("VISUAL") or environ.get("EDITOR") or "vi"
    place = (
        [f"+{line}", path]
        if os.path.basename(editor.split()[0]) in ("vi", "vim", "nvim", "nano", "emacs")
        else [path]
    )
    try:
        code = subprocess.run([*editor.split(), *place], check=False).returncode
    except OSError as error:
        raise exits.CommandError(
            f"the editor ({editor}) cannot be started: {error.strerror}. Set $EDITOR to another one."
        ) from None
    if code:
        raise exits.CommandError(f"the editor ({editor}) failed; set $EDITOR to another one.")
