"""`sundog logs`: what the processes of a session printed, by file, actor, task, process or job.

Owns the command line and the page; which files are meant and which lines of them is `util.state.logs`. Works on a
running session and on one that has ended. Runs in the terminal's process, main thread; it joins no session. Ctrl-C ends
--follow.
"""

import json
import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from sundog.cli import exits, rows
from sundog.cli.sessions import opened, session_option
from sundog.observe.desks import is_elsewhere

if TYPE_CHECKING:
    from typing import TypedDict, Unpack

    from sundog.observe.sessions import Opened
    from sundog.util.state.logs import Log

    class LogOptions(TypedDict):
        """The options of the command, apart from those that say which session."""

        id_: str | None
        pid: int | None
        is_err: bool
        attempt_number: int
        tail: int
        follow: bool
        node_id: str | None
        node_ip: str | None
        as_json: bool


_KINDS = ("actor", "task", "worker", "job", "driver", "cluster")
_LOOK_S = 0.2

_EXAMPLES = rows.examples(
    ("sundog logs", "the names of all files"),
    ("sundog logs 'worker*'", "the files whose names fit; one file is shown"),
    ("sundog logs task ID --err", "what a task wrote to standard error, in each attempt"),
    ("sundog logs actor NAME --follow", "what an actor prints, as it comes"),
    ("sundog logs worker 4711 --tail 20", "the last lines of a process"),
    ("sundog logs job 01000000", "what all workers of a job printed"),
)


@click.command("logs", short_help="Show what the processes of a session printed.", epilog=_EXAMPLES)
@click.argument(
    "what",
    nargs=-1,
    metavar="[GLOB | task ID | actor ID|NAME | worker PID | job ID | driver]",
)
@click.option(
    "--id",
    "id_",
    metavar="ID",
    help="The id of the actor, the task or the job: the same as the argument after the kind.",
)
@click.option("--pid", type=int, help="The pid of the worker: the same as the argument after the kind.")
@click.option(
    "-a", "--attempt-number", type=click.IntRange(0), help="Only this attempt of the task; the first is 0."
)
@click.option("--err", "is_err", is_flag=True, help="Show what was written to standard error.")
@click.option(
    "--tail",
    type=click.IntRange(-1),
    default=1000,
    show_default=True,
    help="Show so many lines from the end; -1 means all.",
)
@click.option("-f", "--follow", is_flag=True, help="Keep printing new lines as they are written.")
@click.option("--node-id", metavar="ID", help="The id of the node.")
@click.option("--node-ip", metavar="IP", help="The address of the node.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print the names of the files, or the lines of a log, as JSON."
)
@rows.timeout_option
@rows.address_option
@session_option
def command(
    what: tuple[str, ...],
    address: str | None,
    session: str | None,
    timeout: int,
    **options: "Unpack[LogOptions]",
) -> int:
    """Show what the processes of a session printed.

    Without an argument the files are listed; with a pattern, the files whose names match it. If only one file matches,
    its content is shown. After a kind (task, actor, worker, job) give an id; for an actor also its name, for a
    worker its pid.
    """
    chosen = opened(session or address)
    kind, wanted = _meaning(what, options)
    if is_elsewhere(chosen.path):
        raise exits.CommandError(
            f"the session {chosen.name} is of a job on a Ray cluster, where Ray keeps the logs: on each node, by "
            "default in /tmp/ray/session_latest/logs. See: ray logs. What workers print comes to the driver's terminal."
        )
    if kind == "cluster":
        return _show_files(chosen, wanted or "*", options)
    found = rows.asked(lambda: _logs(chosen, kind, wanted, options))
    return _show(chosen, found, options)


def _meaning(what: tuple[str, ...], options: "LogOptions") -> tuple[str, str]:
    kind = what[0] if what and what[0] in _KINDS else "cluster"
    rest = what[1:] if what and what[0] in _KINDS else what
    if len(rest) > 1:
        raise click.UsageError(f"{rest[1]!r} is one argument too many: sundog logs shows one log at a time.")
    given = rest[0] if rest else options["id_"] or (str(options["pid"]) if options["pid"] is not None else "")
    if not given and kind not in ("cluster", "driver"):
        what_for = "a pid" if kind == "worker" else "an id"
        raise click.UsageError(f"{what_for} is missing: sundog logs {kind} …")
    return kind, given


def _logs(chosen: "Opened", kind: str, wanted: str, options: "LogOptions") -> "list[Log]":
    from sundog.util.state import logs

    suffix = "err" if options["is_err"] else "out"
    if kind == "task":
        return logs.logs_of_task(chosen.path, wanted, suffix, options["attempt_number"])
    if kind == "driver":
        return logs.logs_of_driver(chosen.path, wanted or "*")
    return {
        "actor": logs.logs_of_actor,
        "worker": logs.logs_of_worker,
        "job": logs.logs_of_job,
    }[kind](chosen.path, wanted, suffix)


def _show_files(chosen: "Opened", pattern: str, options: "LogOptions") -> int:
    from sundog.util.state import logs

    _check_node(chosen, options)
    found = logs.files_of(chosen.path, pattern)
    files = [each for group in found.values() for each in group]
    if not files:
        raise exits.CommandError(f"no log is called {pattern!r}. See: sundog logs")
    if len(files) == 1 and pattern != "*":
        return _show(chosen, [logs.log_named(chosen.path, files[0])], options)
    if options["as_json"]:
        click.echo(json.dumps(found, indent=2))
        return exits.OK
    for group, names in found.items():
        click.echo(f"{group}:")
        for each in names:
            click.echo(f"  {each}")
    return exits.OK


def _check_node(chosen: "Opened", options: "LogOptions") -> None:
    from sundog.util.state.logs import list_logs

    if options["node_id"] or options["node_ip"]:
        rows.asked(
            lambda: list_logs(
                chosen.path, node_id=options["node_id"], node_ip=options["node_ip"], glob_filter="node.log"
            )
        )


# ---------------------------------------------------------------------- showing
def _show(chosen: "Opened", logs: "Sequence[Log]", options: "LogOptions") -> int:
    from sundog.util.state.logs import pieces

    if options["follow"] and not options["as_json"]:
        if chosen.is_live:
            _follow(logs, options["tail"])
        click.echo("sundog: the session has ended, so nothing more comes.", err=True)
    said = False
    for log in logs:
        text = b"".join(pieces(log, options["tail"])).decode("utf-8", "backslashreplace")
        if options["as_json"]:
            facts = {"title": log.title, "file": os.path.basename(log.path), "lines": text.split("\n")}
            click.echo(json.dumps(facts))
            continue
        if len(logs) > 1 and text:
            click.echo(f"==> {log.title} ({os.path.basename(log.path)})")
        said = said or bool(text)
        click.echo(text, nl=False)
        if len(logs) > 1 and text and not text.endswith("\n"):
            click.echo("")
    if not said and not options["as_json"]:
        other = "without --err" if options["is_err"] else "with --err"
        click.echo(f"sundog: nothing was printed there. The other output: the same command {other}", err=True)
    return exits.OK


def _follow(logs: "Sequence[Log]", tail: int) -> None:
    """Show logs as they grow, until Ctrl-C."""
    from sundog.observe.log_reading import Follower

    followers = [(log, Follower(log.path, log.task, log.attempt)) for log in logs]
    shown: object = None
    first = True
    try:
        while True:
            for log, follower in followers:
                text = follower.history(tail) if first else follower.poll()
                if text and len(logs) > 1 and shown is not log:
                    click.echo(f"==> {log.title} ({os.path.basename(log.path)})")
                    shown = log
                click.echo(text.decode("utf-8", "backslashreplace"), nl=False)
            first = False
            time.sleep(_LOOK_S)
    finally:
        for _, follower in followers:
            follower.close()
