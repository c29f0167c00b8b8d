"""`sundog start --head`: a session that outlives the command, for programs to join with init(address="auto").
`sundog start --address auto`: one more node of such a session, on the same machine.

Owns the flags (Ray's spellings), their values, and the message that says how to join and how to stop. The
session itself is started by `engines.sessions`. Refuses to join a head on another machine. Runs in the
terminal's process, main thread; with --block it stays until the session ends or a signal asks it to end the
session.
"""

import json
import math
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from sundog.cli import exits, rows
from sundog.cli.ray_flags import style_flags
from sundog.plain import plain

if TYPE_CHECKING:
    from sundog.engines.heads import Head
    from sundog.engines.sessions import SessionInfo
    from sundog.plain import JsonObject

STOP_GRACE_S = 10.0
_LOOK_S = 0.1


class _Stop(BaseException):
    """SIGTERM or Ctrl-C while blocking: not an Exception, so nothing on the way mistakes it for a failure."""


def _json_object(text: str, like: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise click.BadParameter(f"not JSON ({error}). Write it like: '{like}'") from error
    if not isinstance(found, dict):
        raise click.BadParameter(f"a JSON object is needed, like '{like}', not {text}")
    return found


def parse_resources(_ctx: click.Context, _option: click.Parameter, text: str | None) -> dict[str, float]:
    """`--resources '{"disk": 2}'` as amounts by name."""
    if text is None:
        return {}
    amounts: dict[str, float] = {}
    for name, amount in _json_object(text, '{"disk": 2}').items():
        if isinstance(amount, bool) or not isinstance(amount, int | float):
            raise click.BadParameter(f"the amount of {name!r} must be a number, not {amount!r}")
        if amount < 0 or not math.isfinite(amount):
            raise click.BadParameter(f"the amount of {name!r} must be zero or more, not {amount}")
        if name in ("CPU", "GPU"):
            raise click.BadParameter(f"{name} has its own option: --num-{name.lower()}s {amount}")
        amounts[name] = float(amount)
    return amounts


def parse_labels(_ctx: click.Context, _option: click.Parameter, text: str | None) -> dict[str, str]:
    """`--labels zone=a,disk=ssd` as values by key."""
    labels: dict[str, str] = {}
    for pair in filter(None, (text or "").split(",")):
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{pair!r} is not key=value. Write them like: zone=a,disk=ssd")
        labels[key.strip()] = value.strip()
    return labels


def describe(info: "SessionInfo") -> str:
    """What a user needs to know after the start of a session."""
    return "\n".join(
        [
            f"Session {info.name} is running (node pid {info.node_pid}).",
            f"  its files   {info.path}",
            f"  address     {info.address}",
            "Join it from a program:",
            '  import sundog as ray; ray.init(address="auto")',
            "or run an `import ray` program that does the same:",
            "  sundog run script.py",
            f"Add a node to it:  sundog start --address='{info.address}'",
            "See what it does:  sundog status",
            f"Stop it:           sundog stop --session {info.name}",
        ]
    )


def parse_settings(_ctx: click.Context, _option: click.Parameter, text: str | None) -> dict[str, object]:
    """`--system-config '{"memory_usage_threshold": 0.9}'` as settings by name; their values are checked later."""
    return _json_object(text or "{}", '{"spin_us": 0}')


def describe_other(other: "SessionInfo") -> str:
    """What the user should know of a session of `sundog start` that was there before."""
    return (
        f"Note: session {other.name} (node pid {other.node_pid}) is running too, with {other.cpus:g} CPUs. "
        "Each hands out its CPUs as if it were alone on this machine.\n"
        f'  to join it instead        init(address="{other.name}")\n'
        f"  to end it                 sundog stop --session {other.name}"
    )


@contextmanager
def _signals_stop() -> Iterator[None]:
    def stop(_number: int, _frame: object) -> None:
        raise _Stop

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stay_with(info: "SessionInfo") -> int:
    """Wait until the node's process ends, or end the session when a signal says so."""
    from sundog.engines import sessions

    try:
        with _signals_stop():
            ended = os.pidfd_open(info.node_pid)
            try:
                waiter = select.poll()
                waiter.register(ended, select.POLLIN)
                waiter.poll()
            finally:
                os.close(ended)
    except ProcessLookupError:
        pass
    except _Stop:
        for what in sessions.stop_session(info, force=False, grace_s=STOP_GRACE_S):
            click.echo(f"stopped {what}")
        return exits.OK
    raise exits.CommandError(
        f"session {info.name} ended while this command was watching it (node pid {info.node_pid}): "
        f"someone ran sundog stop, or the node died. Its logs are in {info.path}"
    )


@plain(frozen=True)
class WantedHead:
    """What a node is to have, as the flags say; None: what this machine has."""

    num_cpus: int | None
    num_gpus: int | None
    resources: dict[str, float]
    store_bytes: int | None


def _add_node(
    address: str,
    temp_dir: str | None,
    wanted: WantedHead,
    labels: dict[str, str],
    settings: dict[str, object],
    *,
    block: bool,
) -> int:
    """Start one more node of a session of this machine."""
    from sundog import config as config_module
    from sundog.engines import capacity, members, sessions

    try:
        info = sessions.resolve(address, temp_dir)
    except ConnectionError as error:
        raise exits.CommandError(
            f"{error} A node joins a session of its own machine, not one of another machine."
        ) from None
    config = config_module.load(settings)
    totals = capacity.node_resources(
        wanted.num_cpus, wanted.num_gpus, wanted.resources, wanted.store_bytes, config
    )
    totals.pop("node:__internal_head__", None)
    member = members.start_member(info, totals, labels, config)
    click.echo(
        f"Node {member.node_id[:8]} (pid {member.pid}) joined session {info.name} with {totals['CPU']:g} CPUs.\n"
        f"  to see all nodes          sundog list nodes\n"
        f"  to end this one           sundog stop --node {member.node_id[:8]}"
    )
    if not block:
        return exits.OK
    try:
        with _signals_stop():
            while not members.has_ended(member.pid):
                time.sleep(_LOOK_S)
    except _Stop:
        members.kill(member)
        return exits.OK
    raise exits.CommandError(f"node {member.node_id[:8]} ended; see: sundog why {member.node_id[:8]}")


def _make_head(
    wanted: bool | None, host: str, port: int | None, settings: dict[str, object]
) -> "tuple[Head | None, str]":
    """The head process that the session is to have, and a note if it has none because packages are missing."""
    from sundog.config import load
    from sundog.engines import heads

    config = load(settings)
    if wanted is None and not config.include_dashboard:
        wanted = False
    if wanted is False:
        return None, ""
    try:
        return heads.make_head(host, port, config.dashboard_port), ""
    except heads.NotInstalled as error:
        if wanted:
            raise exits.CommandError(str(error)) from None
        return None, f"Note: {error}"
    except heads.PortTaken as error:
        raise exits.CommandError(str(error)) from None


def _say_started(info: "SessionInfo", head: "Head | None", notes: list[str]) -> None:
    text = describe(info)
    if head is not None:
        head.listener.close()  # the node has it
        text += f"\nDashboard and jobs: {head.info.page}"
    click.echo(text)
    for note in filter(None, notes):
        click.echo(note, err=True)


# Flags of Ray's `start` without a meaning here: there are no such ports, processes or stores.
_NUMBERS = (
    "--port",
    "--object-manager-port",
    "--node-manager-port",
    "--min-worker-port",
    "--max-worker-port",
    "--ray-client-server-port",
    "--dashboard-agent-listen-port",
    "--dashboard-agent-grpc-port",
    "--runtime-env-agent-port",
    "--system-reserved-memory",
)
_TEXTS = (
    "--node-ip-address",
    "--node-name",
    "--redis-username",
    "--redis-password",
    "--redis-shard-ports",
    "--worker-port-list",
    "--plasma-directory",
    "--autoscaling-config",
    "--cgroup-path",
    "--proxy-server-url",
)
_LABELS = "sundog.labels"
_SWITCHES = (
    "--no-redirect-output",
    "--enable-object-reconstruction",
    "--no-monitor",
    "--ray-debugger-external",
    "--enable-resource-isolation",
)


def _accepts_rays_flags(function: Callable[..., int]) -> Callable[..., int]:
    """Take Ray's other flags, checked as Ray checks them, hidden from the help and without effect."""
    kinds: list[tuple[tuple[str, ...], dict[str, object]]] = [
        (_NUMBERS, {"type": int}),
        (_TEXTS, {"type": str}),
        (_SWITCHES, {"is_flag": True}),
        (("--include-log-monitor",), {"type": bool}),
        (("--system-reserved-cpu",), {"type": float}),
    ]
    keep: JsonObject = {"expose_value": False, "hidden": True, "help": "Accepted; no effect here."}
    for flags, how in kinds:
        for flag in flags:
            function = click.option(flag, **keep, **how)(function)  # type: ignore[arg-type]
    return style_flags(function)


def _hook(text: str | None) -> str | None:
    """A tracing hook that can be meant, and OpenTelemetry is there."""
    if text is not None:
        from sundog.observe import spans

        try:
            spans.check_hook(text)
        except (spans.TracingHookError, ImportError) as error:
            raise click.UsageError(str(error)) from None
    return text


def read_labels_file(path: str | None) -> dict[str, str]:
    """`--labels-file labels.yaml` as values by key.

    Raises:
        click.BadParameter: it is no list of `key: value` lines.
    """
    labels: dict[str, str] = {}
    if path is None:
        return labels
    with open(path, encoding="utf-8") as file:
        for line in file:
            text = line.split("#", 1)[0].strip()
            if not text:
                continue
            key, colon, value = text.partition(":")
            if not colon:
                raise click.BadParameter(f"{path}: {text!r} is not `key: value`")
            labels[key.strip().strip("\"'")] = value.strip().strip("\"'")
    return labels


def _given(**settings: object) -> dict[str, object]:
    """The settings that flags of this command were given for."""
    return {name: value for name, value in settings.items() if value is not None}


def _all_labels(context: click.Context, option: click.Parameter, text: str) -> dict[str, str]:
    """The labels of the file, and those of the command line."""
    return {**context.meta.get(_LABELS, {}), **parse_labels(context, option, text)}


_EXAMPLES = rows.examples(
    ("sundog start --head", "then run programs: their init() joins this session"),
    ("sundog start --head --num-cpus 4", "with four logical CPUs"),
    ("sundog start --address auto --num-cpus 2", "add a node to the running session"),
    ("sundog status", "what the session has, runs and waits for"),
    ("sundog stop", "end it"),
)


@click.command("start", short_help="Start a session that outlives this command.", epilog=_EXAMPLES)
@click.option("--head", is_flag=True, help="Start a new session on this machine.")
@click.option(
    "--address",
    metavar="ADDRESS",
    help="Add a node to a running session of this machine: the name of the session, or auto.",
)
@click.option(
    "--num-cpus", type=click.IntRange(min=0), help="Number of logical CPUs; by default those of this machine."
)
@click.option(
    "--num-gpus", type=click.IntRange(min=0), help="Number of logical GPUs; by default those of this machine."
)
@click.option(
    "--resources",
    callback=parse_resources,
    metavar="JSON",
    help="Custom resources, for example '{\"disk\": 2}'.",
)
@click.option(
    "--memory",
    type=click.IntRange(min=1),
    help="Bytes of memory that tasks and actors can request with memory=.",
)
@click.option(
    "--memory-usage-threshold",
    type=click.FloatRange(0.0, 1.0),
    help="The memory monitor ends a worker when a larger share of the memory is in use.",
)
@click.option(
    "--memory-monitor-refresh-ms",
    type=click.IntRange(min=0),
    help="Milliseconds between two checks by the memory monitor; 0 switches the monitor off.",
)
@click.option(
    "--system-config",
    callback=parse_settings,
    metavar="JSON",
    help="Other settings by name, for example '{\"spin_us\": 0}'.",
)
@click.option("--object-store-memory", type=click.IntRange(min=1), help="Bytes of shared memory for objects.")
@click.option(
    "--object-spilling-directory",
    metavar="PATH",
    help="The folder or URL for objects that do not fit into shared memory.",
)
@click.option(
    "--temp-dir", type=click.Path(file_okay=False), help="The folder in which sessions keep their files."
)
@click.option(
    "--include-dashboard",
    type=bool,
    metavar="BOOL",
    help="Whether to start the dashboard and accept jobs. By default: if sundog[default] is installed.",
)
@click.option(
    "--dashboard-host",
    default="127.0.0.1",
    show_default=True,
    help="The address on which the dashboard listens.",
)
@click.option(
    "--dashboard-port",
    type=click.IntRange(0, 65535),
    help="The port of the dashboard; 0 means any free port. By default 8265, or a port after it if 8265 is in use.",
)
@click.option(
    "--max-running-jobs",
    type=click.IntRange(min=0),
    help="How many submitted jobs may run at the same time; 0 means no limit.",
)
@click.option(
    "--metrics-export-port",
    type=click.IntRange(0, 65535),
    help="A second port for /metrics, for Prometheus. The port of the dashboard has /metrics too.",
)
@click.option(
    "--tracing-startup-hook",
    metavar="MODULE:FUNCTION",
    callback=lambda _context, _option, text: _hook(text),
    help="A function that sets up OpenTelemetry. Each process of the session calls it; tasks and calls become spans.",
)
@click.option("--labels", callback=_all_labels, metavar="K=V,…", help="Labels of this node.")
@click.option(
    "--labels-file",
    type=click.Path(exists=True, dir_okay=False),
    is_eager=True,  # read before --labels, which adds to it
    expose_value=False,
    callback=lambda context, _option, path: context.meta.update({_LABELS: read_labels_file(path)}),
    help="A file with labels of this node: one `key: value` in each line.",
)
@click.option("--block", is_flag=True, help="Keep running until the session ends. Ctrl-C ends the session.")
@click.option(
    "--disable-usage-stats", is_flag=True, help="Accepted without effect: sundog never reports usage."
)
@_accepts_rays_flags
def command(
    head: bool,
    address: str | None,
    num_cpus: int | None,
    num_gpus: int | None,
    resources: dict[str, float],
    memory: int | None,
    memory_usage_threshold: float | None,
    memory_monitor_refresh_ms: int | None,
    system_config: dict[str, object],
    object_store_memory: int | None,
    object_spilling_directory: str | None,
    temp_dir: str | None,
    include_dashboard: bool | None,
    dashboard_host: str,
    dashboard_port: int | None,
    max_running_jobs: int | None,
    metrics_export_port: int | None,
    tracing_startup_hook: str | None,
    labels: dict[str, str],
    block: bool,
    disable_usage_stats: bool,
) -> int:
    """Start a session that outlives this command. Programs join it with init(address="auto")."""
    if head and address:
        raise click.UsageError("--head starts a session and --address joins one: give one of them.")
    if not head and not address:
        raise click.UsageError("say --head to start a session on this machine: sundog start --head")
    from sundog.engines import sessions

    settings = system_config | _given(
        memory_usage_threshold=memory_usage_threshold,
        memory_monitor_refresh_ms=memory_monitor_refresh_ms,
        max_running_jobs=max_running_jobs,
        metrics_export_port=metrics_export_port,
        tracing_startup_hook=tracing_startup_hook,
    )
    if memory is not None:
        resources = {**resources, "memory": float(memory)}
    if address:
        wanted = WantedHead(num_cpus, num_gpus, resources, object_store_memory)
        return _add_node(address, temp_dir, wanted, labels, settings, block=block)
    others = [other for other in sessions.find_sessions(temp_dir) if other.persistent]
    made, note = _make_head(include_dashboard, dashboard_host, dashboard_port, settings)
    info = sessions.start_head(
        num_cpus=num_cpus,
        num_gpus=num_gpus,
        resources=resources,
        object_store_memory=object_store_memory,
        object_spilling_directory=object_spilling_directory,
        temp_dir=temp_dir,
        head=made,
        labels=labels,
        # The command blocks only here, after the message: the user must read how to join first.
        block=False,
        system_config=settings,
    )
    _say_started(info, made, [note, *(describe_other(other) for other in others)])
    return _stay_with(info) if block else exits.OK
