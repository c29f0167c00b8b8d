"""`sundog debug`: the tasks that stand at a breakpoint, and a pdb in the one you choose.

Owns the choice; the prompt is `debugging.client`, pdb itself runs with the task. Runs in the terminal's process, main
thread; it joins no session.
"""

import os
import time
from typing import TYPE_CHECKING

import click

from sundog.cli import exits, rows
from sundog.wire.pauses import Pause
from sundog.wire.requests import PausedTasks

if TYPE_CHECKING:
    from sundog.debugging.channel import DebugChannel
    from sundog.util.state.source import StateSource

_LOOK_S = 0.1
_EXAMPLES = rows.examples(
    ("sundog debug", "the paused tasks; the only one is attached to at once"),
    ("sundog debug 2", "the paused task of this number; the id of the task does as well"),
    ("sundog debug --list", "only the list"),
    ("sundog debug --vscode", "a port for VS Code, and the launch configuration for it"),
)


@click.command("debug", short_help="List paused tasks and attach pdb to one.", epilog=_EXAMPLES)
@click.argument("task", required=False)
@click.option("--list", "only_list", is_flag=True, help="Only list the paused tasks.")
@click.option(
    "--wait",
    "patience_s",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="SECONDS",
    help="Wait so many seconds for a task to pause, and for its session to start.",
)
@click.option(
    "--vscode", is_flag=True, help="Start debugpy in the task, and print how VS Code attaches to it."
)
@rows.address_option
def command(task: str | None, only_list: bool, patience_s: float, vscode: bool, address: str | None) -> int:
    """List the paused tasks, and attach pdb to one of them.

    A task is paused by `breakpoint()` in its code, by post_mortem=True at its exception, or by `sundog break`. Leaving
    the prompt (quit, Ctrl-D) lets it continue. If this terminal is closed, the task stays paused.
    """
    from sundog.debugging import client

    deadline = time.monotonic() + patience_s
    while True:
        if (path := _elsewhere(address)) is not None:
            return _visit_elsewhere(path, task, only_list, deadline)
        if (source := _source(address, deadline)) is not None:
            break
        time.sleep(_LOOK_S)
    paused = _paused(source, task, deadline, only_list)
    left: set[str] = (
        set()
    )  # a task informs this command before its node, which may still list the task as paused
    while True:
        if only_list:
            _show(paused)
            return exits.OK
        chosen = _choose(paused)
        if chosen is None:
            return exits.OK
        if vscode:
            return _open_port(source.path, chosen)
        if _attach(source.path, chosen) != client.LEFT:
            left.add(chosen.id)
        if task is not None or not client.is_terminal():
            return exits.OK
        try:
            paused = [each for each in _all_paused(source) if each.id not in left]
        except (exits.CommandError, ConnectionError):
            return exits.OK  # that was the last task of the program, and its session has ended
        if not paused:
            return exits.OK


def _source(address: str | None, deadline: float) -> "StateSource | None":
    """The session that is meant; None if it has not started yet and there is time left."""
    from sundog.util.state.source import find_source

    try:
        return rows.asked(lambda: find_source(address))
    except exits.NoSession:
        if time.monotonic() >= deadline:
            raise
        return None


def _elsewhere(address: str | None) -> str | None:
    """The folder of the job on another engine that is meant, if it is one."""
    from sundog.observe import desks, sessions

    try:
        found = sessions.open_session(address)
    except sessions.NoSuchSession:
        return None
    return found.path if not found.is_live and desks.has_desk(found.path) else None


def _visit_elsewhere(path: str, task: str | None, only_list: bool, deadline: float) -> int:
    """The same for a job on a Ray cluster: its driver knows which task stands where."""
    from sundog.debugging import relay
    from sundog.observe import desks

    while True:
        try:
            found = desks.ask(path, "pauses")
        except desks.Unanswered as error:
            raise exits.CommandError(str(error)) from None
        wanted = [each for each in found if task in (None, str(each["number"]), each["task"])]
        if wanted or time.monotonic() >= deadline:
            break
        time.sleep(0.2)
    for each in wanted:
        click.echo(
            f"{each['number']:>3}  {each['name']}  {each['place']}  {each['why']}  node {each['node'][:8]}  "
            f"pid {each['pid']}  task {each['task']}"
        )
    if not wanted:
        raise exits.CommandError("no task is paused. Put breakpoint() in the code of the task.")
    if only_list:
        return exits.OK
    if len(wanted) > 1:
        raise exits.CommandError(
            f"{len(wanted)} tasks are paused: give the number of one, for example: sundog debug 1"
        )
    try:
        relay.visit(tuple(wanted[0]["address"]), wanted[0]["token"])
    except OSError as error:
        raise exits.CommandError(
            f"the task cannot be attached to ({error.strerror}): perhaps it is no longer paused."
        ) from None
    return exits.OK


def _paused(source: "StateSource", task: str | None, deadline: float, only_list: bool) -> list[Pause]:
    """The paused tasks that are wanted, oldest first; waits until there is one. Only a list may be empty."""
    while True:
        found = _all_paused(source)
        wanted = [each for each in found if task is None or task in (str(each.number), each.task_id)]
        if wanted or time.monotonic() >= deadline:
            break
        time.sleep(_LOOK_S)
    if not wanted and only_list and task is None:
        click.echo("No task is paused.")
        return []
    if not wanted:
        which = f"no task {task} is paused" if task is not None else "no task is paused"
        raise exits.CommandError(
            f"{which}. Put breakpoint() in its code, or set one with: sundog break FILE:LINE"
        )
    return wanted


def _all_paused(source: "StateSource") -> list[Pause]:
    """The paused tasks, oldest first."""
    return sorted(rows.asked(lambda: source.ask(PausedTasks())), key=lambda each: each.since_s)


def _show(paused: list[Pause]) -> None:
    for each in paused:
        since = time.strftime("%H:%M:%S", time.localtime(each.since_s))
        who = f"  (pid {each.attached} is attached)" if each.attached else ""
        port = f"  debugpy on 127.0.0.1:{each.port}" if each.port else ""
        click.echo(
            f"{each.number:>3}  {each.name}  {each.place}  since {since}  {each.why}  task {each.task_id}{port}{who}"
        )


def _choose(paused: list[Pause]) -> Pause | None:
    if len(paused) == 1:
        return paused[0]
    _show(paused)
    from sundog.debugging import client

    if not client.is_terminal():
        raise exits.CommandError(
            f"{len(paused)} tasks are paused: give the number of one, for example: sundog debug {paused[0].number}"
        )
    while True:
        answer = click.prompt("Which one? (a number, q to leave)", prompt_suffix=" ").strip()
        if answer.lower() in ("q", "quit"):
            return None
        for each in paused:
            if answer == str(each.number):
                return each
        click.echo(f"{answer} is none of them.")


def _connect(path: str, pause: Pause) -> "DebugChannel":
    from sundog.debugging import channel

    try:
        return channel.connect(path, pause.id)
    except OSError as error:
        raise exits.CommandError(
            f"{pause.name} (number {pause.number}) cannot be attached to ({error.strerror}): perhaps "
            "it is no longer paused. "
            "See: sundog debug --list"
        ) from None


def _attach(path: str, pause: Pause) -> str:
    """Sit at its prompt; how that ended."""
    from sundog.debugging import client

    if pause.port:
        _show_port(pause.port, pause)
        return client.END
    if pause.attached:
        raise exits.CommandError(
            f"another terminal is attached to {pause.name} (pid {pause.attached}). See: sundog debug --list"
        )
    channel = _connect(path, pause)
    click.echo(f"{pause.name} (task {pause.task_id}, pid {pause.pid}), paused by {pause.why}")
    try:
        return client.visit(channel, os.path.join(path, "debug", "history"))
    finally:
        channel.close()


def _open_port(path: str, pause: Pause) -> int:
    if pause.port:
        return _show_port(pause.port, pause)
    channel = _connect(path, pause)
    try:
        channel.send("debugpy")
        while (message := channel.receive()) is not None:
            if message["kind"] == "port":
                return _show_port(int(message["port"]), pause)
            if message["kind"] == "end":
                raise exits.CommandError(str(message["text"]).strip())
    finally:
        channel.close()
    raise exits.CommandError("the task's process is gone.")


def _show_port(port: int, pause: Pause) -> int:
    from sundog.debugging import vscode

    click.echo(
        f"The debugger is listening on 127.0.0.1:{port}. Add this to .vscode/launch.json and start it:"
    )
    click.echo(vscode.launch_configuration(port, pause.name))
    return exits.OK
