"""`sundog stack`: what every process of a running session is doing right now.

Owns the choice of processes and the page; the looking is `observe.stacks`. Runs in the terminal's process, main thread;
it joins no session, needs no root, and stops no process. Ctrl-C ends --watch.
"""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sundog.cli import exits, rows
from sundog.cli.sessions import live_session_option, opened, opened_live
from sundog.observe.desks import has_desk
from sundog.printable import printable
from sundog.wire.requests import ListRows, Status

if TYPE_CHECKING:
    from sundog.observe.sessions import Opened
    from sundog.observe.stacks import SeenProcess

_ID_MIN = 6  # characters of an id that name it
_NATIVE_S = 30.0

_EXAMPLES = rows.examples(
    ("sundog stack", "all drivers and workers; equal stacks are shown once"),
    ("sundog stack 4711", "the process with this pid"),
    ("sundog stack ID", "the process that runs this task, or this actor or worker"),
    ("sundog stack --watch", "again every two seconds"),
    ("sundog stack --native", "with the frames of C code, through py-spy"),
    ("sundog stack --all", "with sundog's own threads and frames, node and zygote"),
)


@click.command("stack", short_help="Show what every process is doing right now.", epilog=_EXAMPLES)
@click.argument("target", required=False, metavar="[PID|ID|NAME]")
@click.option(
    "-a",
    "--all",
    "everything",
    is_flag=True,
    help="Show also sundog's own threads and frames, the node and the zygote.",
)
@click.option("--native", is_flag=True, help="Use py-spy: show the frames of C code too.")
@click.option("--watch", is_flag=True, help="Repeat until Ctrl-C.")
@click.option(
    "--interval",
    type=click.FloatRange(0.1),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="With --watch: the time between two samples.",
)
@click.option(
    "--patience",
    type=click.FloatRange(0.0, 20.0),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a process may take to answer. After that its fault handler writes the stacks.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the stacks as JSON.")
@rows.address_option
@live_session_option
def command(
    target: str | None,
    everything: bool,
    native: bool,
    watch: bool,
    interval: float,
    patience: float,
    as_json: bool,
    address: str | None,
    session: str | None,
) -> int:
    """Show the Python stacks of all drivers and workers, the most recent call first.

    Asyncio tasks are shown with their chain of awaits. A process whose C code keeps Python from running is asked by a
    signal, which its fault handler answers; the process continues.
    """
    elsewhere = opened(session or address)
    chosen = elsewhere if has_desk(elsewhere.path) else opened_live(session or address)
    while True:
        seen = _look(chosen, target, everything, patience)
        if watch and not as_json:
            click.clear()
        if native:
            _show_native([each.who.pid for each in seen])
        elif as_json:
            _show_json(seen, one_line=watch)
        else:
            _show(seen, everything)
        if not watch:
            return exits.OK
        time.sleep(interval)


# ---------------------------------------------------------------------- whom
def _look(chosen: "Opened", target: str | None, everything: bool, patience_s: float) -> "list[SeenProcess]":
    from sundog.observe import desks, stacks

    if has_desk(chosen.path):
        try:
            found = stacks.collect_elsewhere(chosen.path)
        except desks.Unanswered as error:
            raise exits.CommandError(str(error)) from None
        return [
            each
            for each in found
            if target in (None, str(each.who.pid)) or _means(str(target), each.who.process_id)
        ]
    if target is None:
        seen = stacks.collect(chosen.ask, chosen.path, patience_s=patience_s)
        return seen + (_programs(chosen) if everything else [])
    if target.isdigit():
        for program in _programs(chosen, int(target)):
            return [program]
    only = _process(chosen, target)
    if only:
        return stacks.collect(chosen.ask, chosen.path, (only,), patience_s)
    seen = [
        each
        for each in stacks.collect(chosen.ask, chosen.path, patience_s=patience_s)
        if each.who.actor_class == target
        or any(_means(target, call.task_id) or call.name == target for call in each.calls)
    ]
    if not seen:
        raise exits.CommandError(_no_such(chosen, target))
    return seen


def _programs(chosen: "Opened", pid: int | None = None) -> "list[SeenProcess]":
    """The node and the zygote; or the one of them with this pid."""
    from sundog.observe import stacks

    status = chosen.ask(Status())
    pids = {"node": int(status["pid"]), "zygote": int(status.get("zygote_pid") or 0)}
    return [
        stacks.see_by_signal(chosen.path, found, kind)
        for kind, found in pids.items()
        if found and pid in (None, found)
    ]


def _process(chosen: "Opened", target: str) -> str:
    """The id of the process that a pid, the id of a worker, or an actor's id or name means; "" if none does."""
    workers, _ = chosen.ask(ListRows("workers"))
    by_pid = target.isdigit()
    found = [
        row for row in workers if (by_pid and row["pid"] == int(target)) or _means(target, row["worker_id"])
    ]
    for row in found:
        if row["is_alive"]:
            return str(row["worker_id"])
    if found:
        raise exits.CommandError(
            f"process {found[-1]['pid']} has ended: {_first_line(found[-1]['exit_detail'])} "
            f"What it printed: sundog logs worker {found[-1]['pid']}"
        )
    actors, _ = chosen.ask(ListRows("actors"))
    for row in actors:
        if row["name"] == target or _means(target, row["actor_id"]):
            if row["state"] != "ALIVE":
                raise exits.CommandError(f"actor {target} has no process now: it is {row['state']}.")
            return next((each["worker_id"] for each in workers if each["pid"] == row["pid"]), "")
    return ""


def _means(target: str, id_hex: str) -> bool:
    """Whether this is an id, or a beginning of it that is long enough to be meant as one."""
    return _is_id(target) and id_hex.startswith(target)


def _is_id(target: str) -> bool:
    return len(target) >= _ID_MIN and all(each in "0123456789abcdef" for each in target)


def _no_such(chosen: "Opened", target: str) -> str:
    shown = printable(target)
    if target.isdigit() and len(target) < 12:
        return f"no process of this session has the pid {shown}. See: sundog list workers"
    if _is_id(target):
        from sundog.util.state.api import ask

        for row in ask("tasks", False, chosen.path, whole=False):
            if row["task_id"].startswith(target):
                return f"task {shown} does not run now: it is {row['state']}. See: sundog get tasks {row['task_id']}"
    return (
        f"{shown!r} is not a pid, worker, actor, class of an actor, task or function that runs in this session. "
        "See: sundog list workers"
    )


def _first_line(text: object) -> str:
    return printable(str(text or "").strip().partition("\n")[0])


# ---------------------------------------------------------------------- how
def _show(seen: "Sequence[SeenProcess]", everything: bool) -> None:
    from sundog.observe import stacks

    wall_s = time.time()
    if not seen:
        click.echo("There are no drivers and no workers.")
    for group in stacks.fold(seen, everything=everything):
        click.echo(click.style(stacks.heading(group, wall_s), bold=True))
        for line in group.lines:
            click.echo(line)


def _show_json(seen: "Sequence[SeenProcess]", *, one_line: bool) -> None:
    from sundog.observe import stacks

    found = [stacks.as_dict(each) for each in seen]
    click.echo(json.dumps(found, indent=None if one_line else 2))


def _show_native(pids: Sequence[int]) -> None:
    beside = Path(sys.executable).with_name("py-spy")
    program = str(beside) if beside.exists() else shutil.which("py-spy")
    if program is None:
        raise exits.CommandError("--native needs py-spy, which is not installed. Install: pip install py-spy")
    failed = ""
    for pid in pids:
        done = subprocess.run(
            [program, "dump", "--native", "--pid", str(pid)],
            capture_output=True,
            text=True,
            errors="backslashreplace",
            timeout=_NATIVE_S,
            check=False,
        )
        if done.returncode:
            failed = (done.stderr.strip() or "no reason given").splitlines()[-1]
            click.echo(f"process {pid}: py-spy could not read it: {failed}", err=True)
        else:
            click.echo(done.stdout, nl=False)
    if failed and len(pids) == 1:
        raise exits.CommandError(
            "py-spy could not read the process. Leave out --native: then no special rights are needed."
        )
