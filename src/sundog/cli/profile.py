"""`sundog profile`: where the time and the memory of a program go, by remote function.

Owns the four ways: `run` a program under it, `attach` to processes that run, `list` and `show` what there is. The
measuring is `sundog.profiling`, in the processes themselves. Runs in the terminal's process, main thread.
"""

import json
import os
import sys
import time
import webbrowser
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from sundog import config
from sundog.cli import exits, rows
from sundog.cli.run import UserProgram
from sundog.cli.sessions import live_session_option, opened, opened_live, session_option
from sundog.observe.desks import has_desk

if TYPE_CHECKING:
    from sundog.engines.local import LocalEngine
    from sundog.observe.sessions import Opened
    from sundog.profiling.rows import Profile
    from sundog.profiling.session import RunningProfile

_RAY_MAX_S = 30.0  # the driver's answer is awaited no longer than twice that
_EXAMPLES = rows.examples(
    ("sundog profile run script.py", "CPU time of a whole program, by remote function"),
    ("sundog profile attach 812 --seconds 5", "a process that runs; also the id of a task or an actor"),
    ("sundog profile attach ACTOR --memory", "what an actor allocates and does not free"),
    ("sundog profile run --line clean --line Model.step script.py", "functions line by line, in all workers"),
    ("sundog profile attach 812 --native", "with the frames of C code"),
    ("sundog profile list", "the profiles of a session"),
    ("sundog profile show", "the newest: a table, flame.html, speedscope.json"),
)


def _kind_options(function: Callable[..., object]) -> Callable[..., object]:
    function = click.option("--memory", "kind", flag_value="memory", help="Measure memory, with memray.")(
        function
    )
    function = click.option(
        "--wall", "kind", flag_value="wall", help="Measure elapsed time, including waiting."
    )(function)
    function = click.option(
        "--cpu", "kind", flag_value="cpu", default=True, help="Measure processor time (the default)."
    )(function)
    function = click.option(
        "--native", is_flag=True, help="Include the frames of C code. Needs py-spy; for memory, memray."
    )(function)
    return click.option(
        "--rate", type=click.FloatRange(1, 1000), default=100.0, show_default=True, help="Samples per second."
    )(function)


@click.group("profile", short_help="Show where time and memory go, by function.", epilog=_EXAMPLES)
def command() -> None:
    """Show where the time and the memory of a program go, by remote function."""


@command.command("run", context_settings={"allow_interspersed_args": False})
@_kind_options
@click.option(
    "--line",
    "lines",
    metavar="NAME",
    multiple=True,
    help="Profile this function or method (Model.step) line by line, in all tasks and calls. Can be repeated.",
)
@click.option("-m", "as_module", is_flag=True, help="TARGET is a module's name, as with python -m.")
@click.option(
    "--engine",
    type=click.Choice(["local", "ray"]),
    default=None,
    help="Where the program runs, as in sundog run.",
)
@click.argument("target")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(
    kind: str,
    rate: float,
    native: bool,
    lines: tuple[str, ...],
    as_module: bool,
    engine: str | None,
    target: str,
    arguments: tuple[str, ...],
) -> Callable[[], None]:
    """Run a program and profile its driver and all its workers, from init() to shutdown().

    On a terminal, bars show how far its functions are.
    """
    _check("line" if lines else kind, native)
    is_on_ray = (engine or config.engine_asked()) == "ray"
    program = UserProgram(
        target, arguments, as_module, progress=sys.stderr.isatty() and not is_on_ray, engine=engine or ""
    )
    if is_on_ray and native:
        raise exits.CommandError(
            "--native is for the local engine: py-spy sees the processes of this machine alone."
        )
    if is_on_ray and not lines:
        return lambda: _run_on_ray(program, f"{kind}:{rate:g}")
    if lines:
        return lambda: _run_by_line(program, lines, is_on_ray)
    return lambda: _run(program, kind, rate, os.path.basename(target), native)


def _run_on_ray(program: UserProgram, asked: str) -> None:
    """Run a program on a Ray cluster; its driver measures itself, and each worker what it runs."""
    import atexit

    from sundog.profiling.rows import profiles_of
    from sundog.ray_engine import gathering
    from sundog.wire.inspect import measure_everything

    def tell() -> None:
        sys.stdout.flush()
        found = [each for path in gathering.paths for each in profiles_of(path)]
        for profile in found:
            show_profile(profile)
        if not found:
            click.echo(
                "sundog profile: the program started no session, so there is nothing to show.", err=True
            )

    atexit.register(tell)  # handlers run last in, first out: the session ends before this
    measure_everything(asked)
    program()


def _run_by_line(program: UserProgram, names: tuple[str, ...], is_on_ray: bool) -> None:
    """Run a program; functions of these names are measured line by line, in all workers."""
    import atexit

    from sundog import engines
    from sundog.profiling.rows import profiles_of
    from sundog.wire.inspect import measure_everything

    paths: list[str] = []
    if is_on_ray:
        from sundog.ray_engine import gathering

        paths = gathering.paths

    def tell() -> None:
        sys.stdout.flush()
        found = [each for path in dict.fromkeys(paths) for each in profiles_of(path) if each.kind == "line"]
        for profile in found:
            show_profile(profile)
        seen = {lines.name for profile in found for part in profile.parts for lines in part.lines or ()}
        for name in names:
            if not any(
                name == each or name.endswith(f".{each}") or each.endswith(f".{name}") for each in seen
            ):
                click.echo(
                    f"sundog profile: no task or call reached {name}. A name is that of a Python function (clean), a "
                    "method (Model.step), or with its module (tools.clean).",
                    err=True,
                )

    atexit.register(tell)  # handlers run last in, first out: the session ends before this
    engines.after_begin.append(lambda engine: paths.append(str(engine.owner.control.session["path"])))
    measure_everything(f"line:{','.join(names)}")
    program()


def _run(program: UserProgram, kind: str, rate: float, what: str, native: bool) -> None:
    from sundog import engines
    from sundog.profiling.session import RunningProfile

    begun: dict[int, RunningProfile] = {}
    ended: list[Profile] = []

    def begin(engine: "LocalEngine") -> None:
        path = str(engine.owner.control.session["path"])
        begun[id(engine)] = RunningProfile(
            engine.owner.control.request, path, kind, what, [], rate_hz=rate, native=native
        )

    def end(engine: "LocalEngine") -> None:
        running = begun.pop(id(engine), None)
        if running is not None and engine.owner.closed is None:
            ended.append(running.end())

    def tell() -> None:
        for profile in ended:
            sys.stdout.flush()
            show_profile(profile)
        if not ended:
            click.echo(
                "sundog profile: the program started no session, so there is nothing to show.", err=True
            )

    import atexit

    atexit.register(tell)  # handlers run last in, first out: the session ends before this
    engines.after_begin.append(begin)
    engines.before_end.append(end)
    program()


@command.command("attach")
@click.argument("target", metavar="PID|TASK|ACTOR|all")
@click.option(
    "--seconds", type=click.FloatRange(min=0.1), default=5.0, show_default=True, help="How long to profile."
)
@_kind_options
@live_session_option
def attach(target: str, seconds: float, kind: str, rate: float, native: bool, session: str | None) -> int:
    """Profile a process of a running session, by its pid, by a task that runs in it or by its actor.

    Of a job on a Ray cluster, "all" are its workers on all nodes.
    """
    from sundog.profiling.session import RunningProfile

    _check(kind, native)
    elsewhere = opened(session)
    if has_desk(elsewhere.path):
        return _attach_on_ray(elsewhere, target, seconds, kind, rate, native)
    found = opened_live(session)
    pid, what = _pid_of(found, target)
    running = RunningProfile(
        found.ask, found.path, kind, what, [pid], rate_hz=rate, limit_s=seconds + 60.0, native=native
    )
    if not running.pids:
        running.drop()
        raise exits.CommandError(f"no process of the session has pid {pid}. See: sundog list workers")
    _measure(running, seconds, f"{kind} profile of {what}")
    return exits.OK


def _measure(running: "RunningProfile", seconds: float, what: str) -> None:
    """Wait, then show what was measured: Ctrl-C ends the wait early."""
    try:
        _wait(seconds, what)
    except KeyboardInterrupt:
        click.echo("Ended early. What was measured until then:")
    show_profile(running.end())


def _attach_on_ray(found: "Opened", target: str, seconds: float, kind: str, rate: float, native: bool) -> int:
    """Profile workers of a job on a Ray cluster, on all nodes: its driver asks them."""
    from sundog.observe import desks
    from sundog.profiling.rows import read

    if native:
        raise exits.CommandError(
            "--native is for the local engine: py-spy sees the processes of this machine alone."
        )
    if seconds > _RAY_MAX_S:
        raise exits.CommandError(
            f"of a job on a Ray cluster, at most {_RAY_MAX_S:g} seconds are profiled at once."
        )
    pid, what = (0, "all workers") if target == "all" else _pid_of(found, target)
    try:
        name = desks.ask(
            found.path,
            "profile",
            pids=[pid] if pid else [],
            kind=kind,
            what=what,
            rate_hz=rate,
            seconds=seconds,
        )
    except desks.Unanswered as error:
        raise exits.CommandError(str(error)) from None
    profile = read(f"{found.path}/profiles/{name}")
    if not profile.parts:
        raise exits.CommandError(f"no worker of the job has pid {pid}. See: sundog list workers")
    show_profile(profile)
    return exits.OK


def _pid_of(found: "Opened", target: str) -> tuple[int, str]:
    from sundog.util import state

    if target.isdigit() and len(target) < 10:
        return int(target), f"pid {target}"
    for actor in state.list_actors(found.path, limit=10_000):
        if actor.actor_id.startswith(target) or (target in (actor.name, actor.class_name) and actor.pid):
            return int(actor.pid or 0), f"actor {actor.class_name} (pid {actor.pid})"
    # Only those that run are asked for: a session may have had more tasks than any limit.
    for task in state.list_tasks(found.path, limit=10_000, filters=[("state", "=", "RUNNING")]):
        is_meant = task.task_id.startswith(target) or target == task.name
        if is_meant and task.worker_pid and task.state == "RUNNING":
            return int(task.worker_pid), f"task {task.name} (pid {task.worker_pid})"
    raise exits.CommandError(
        f"{target} is neither a pid, nor the id, name or class of an actor, nor the id or function of a task that "
        "runs now. See: sundog list actors, sundog list tasks"
    )


def _wait(seconds: float, what: str) -> None:
    from sundog.cli.progress import bar

    end = time.monotonic() + seconds
    with bar(what) as advance:
        while (left := end - time.monotonic()) > 0:
            advance(int((seconds - left) * 10), int(seconds * 10))
            time.sleep(min(0.1, left))


@command.command("list")
@session_option
def list_profiles(session: str | None) -> int:
    """List the profiles of a session, the newest first."""
    from sundog.profiling.rows import profiles_of

    found = profiles_of(opened(session).path)
    if not found:
        click.echo(
            "The session has no profile. Make one with: sundog profile run SCRIPT, or sundog profile attach PID"
        )
    rows.show_table(
        [
            {
                "id": each.id,
                "when": time.strftime("%H:%M:%S", time.localtime(each.begun_s)),
                "kind": each.kind,
                "of": each.what,
                "processes": len(each.parts),
            }
            for each in found
        ],
        numbered=False,
    )
    return exits.OK


@command.command("show")
@click.argument("profile", required=False, metavar="[ID]")
@click.option("--open", "in_browser", is_flag=True, help="Open the flame graph in a browser.")
@session_option
def show(profile: str | None, in_browser: bool, session: str | None) -> int:
    """Show a profile: a table, and the files of the flame graph."""
    from sundog.profiling.rows import profiles_of

    found = [
        each for each in profiles_of(opened(session).path) if profile is None or each.id.startswith(profile)
    ]
    if not found:
        raise exits.CommandError(
            f"there is no profile {profile or ''} in this session. See: sundog profile list".replace(
                "  ", " "
            )
        )
    page = show_profile(found[0])
    if in_browser and page:
        webbrowser.open(f"file://{page}")
    return exits.OK


def show_profile(profile: "Profile") -> str:
    """Print the table, and write the pictures beside the profile; returns the path of the page, "" if there is none."""
    from sundog.profiling import flame, merge

    click.echo(merge.table(profile))
    page = ""
    if profile.kind in ("cpu", "wall"):
        page = f"{profile.folder}/flame.html"
        with open(page, "w", encoding="utf-8") as file:
            file.write(flame.page(profile))
        with open(f"{profile.folder}/speedscope.json", "w", encoding="utf-8") as file:
            json.dump(flame.speedscope(profile), file)
        click.echo(f"\nFlame graph: {page}\nFor speedscope.app: {profile.folder}/speedscope.json")
    for part in profile.parts:
        if part.memory is not None and part.memory.file:
            click.echo(f"In detail: memray flamegraph {profile.folder}/{part.memory.file}")
    return page


def _check(kind: str, native: bool) -> None:
    """Refuse now what every process would refuse later."""
    import importlib.util

    if kind == "line" and importlib.util.find_spec("line_profiler") is None:
        raise exits.CommandError(
            "line profiles need line_profiler. Install it with: pip install 'sundog[profile]'"
        )
    if native and kind != "memory":
        from sundog.profiling.native import find_spy

        if find_spy() is None:
            raise exits.CommandError(
                "native frames need py-spy. Install it with: pip install 'sundog[profile]'"
            )
    if kind == "memory" and importlib.util.find_spec("memray") is None:
        raise exits.CommandError(
            "memory profiles need memray. Install it with: pip install 'sundog[profile]'"
        )
