"""`sundog job submit|status|logs|records|stop|list|delete`: commands that run beside the head and outlive this one.

Owns the flags (Ray's spellings) and the pages; the work is done by `sundog.job_submission`. Submitting says at once
where the job went. Runs in the terminal's process, main thread.
"""

import json
import os
import shlex
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

from sundog.cli import exits, rows
from sundog.cli.ray_flags import style_flags
from sundog.config import user_environ
from sundog.observe.words import in_units

if TYPE_CHECKING:
    from sundog.job_submission import JobDetails, JobSubmissionClient
    from sundog.plain import JsonObject

_LOOK_S = 0.1
_EXAMPLES = rows.examples(
    ("sundog job submit -- python train.py --epochs 3", "run a command, and follow what it prints"),
    (
        "sundog job submit --working-dir . --no-wait -- python train.py",
        "with a copy of this folder; do not wait",
    ),
    ("sundog job logs -f ID", "follow it from another terminal"),
    ("sundog job stop ID", "end it"),
    (
        "sundog job submit --address http://head:8265 -- python train.py",
        "to a Ray cluster; sundog goes along",
    ),
    ("sundog job records ID --address http://head:8265", "its records, to look at here"),
)
F = TypeVar("F", bound=Callable[..., object])

_address = click.option(
    "--address",
    metavar="ADDRESS",
    help="The head process: an address like http://127.0.0.1:8265, or the name of a session. By "
    "default that of the newest session.",
)
_HEADERS = "sundog.headers"


def _keep_headers(context: click.Context, _option: click.Parameter, text: str | None) -> None:
    text = text or user_environ().get("RAY_JOB_HEADERS")
    context.meta[_HEADERS] = _json(text, "--headers") if text else None


_headers = click.option(
    "--headers",
    metavar="JSON",
    expose_value=False,
    callback=_keep_headers,
    help="Headers of every request to the head process; by default those in RAY_JOB_HEADERS.",
)
_verify = click.option(
    "--verify",
    expose_value=False,
    hidden=True,
    help="Accepted without effect: the head process uses plain HTTP.",
)


@click.group("job", short_help="Submit jobs to a session, and watch, stop and list them.", epilog=_EXAMPLES)
def command() -> None:
    """Submit jobs to a session, and watch, stop and list them."""


@command.command("submit")
@_address
@_headers
@_verify
@style_flags
@click.option("--submission-id", metavar="ID", help="The id of the job; by default a new id is generated.")
@click.option("--job-id", hidden=True, help="The older name of --submission-id.")
@click.option("--working-dir", metavar="PATH", help="A folder. The job runs in a copy of it.")
@click.option("--runtime-env", metavar="FILE", help="The job's runtime_env, in a YAML or JSON file.")
@click.option("--runtime-env-json", metavar="JSON", help="The job's runtime_env, as JSON text.")
@click.option(
    "--metadata-json",
    metavar="JSON",
    help='Metadata of the job: names and strings, for example \'{"team": "a"}\'.',
)
@click.option("--entrypoint-num-cpus", type=float, help="CPUs reserved for the command itself.")
@click.option("--entrypoint-num-gpus", type=float, help="GPUs reserved for the command itself.")
@click.option("--entrypoint-memory", type=int, help="Bytes of memory reserved for the command itself.")
@click.option(
    "--entrypoint-resources", metavar="JSON", help="Custom resources reserved for the command itself."
)
@click.option(
    "--entrypoint-label-selector", metavar="JSON", help="Labels of the node that the command runs on."
)
@click.option(
    "--weight", type=float, help="The job's share of the CPUs, relative to other jobs; 1 by default."
)
@click.option(
    "--cpus", type=float, help="The most CPUs that the job's tasks and actors may use at the same time."
)
@click.option(
    "--memory",
    metavar="SIZE",
    help="The most memory that all processes of the job may use together, for example 2GB or 512MiB.",
)
@click.option(
    "--object-store",
    metavar="SIZE",
    help="The most space that the job's objects may use in the object store.",
)
@click.option("--no-wait", is_flag=True, help="Return at once, and leave the job running.")
@click.argument("entrypoint", nargs=-1, required=True, type=click.UNPROCESSED)
def submit(
    address: str | None,
    submission_id: str | None,
    job_id: str | None,
    working_dir: str | None,
    runtime_env: str | None,
    runtime_env_json: str | None,
    metadata_json: str | None,
    entrypoint_num_cpus: float | None,
    entrypoint_num_gpus: float | None,
    entrypoint_memory: int | None,
    entrypoint_resources: str | None,
    entrypoint_label_selector: str | None,
    weight: float | None,
    cpus: float | None,
    memory: str | None,
    object_store: str | None,
    no_wait: bool,
    entrypoint: tuple[str, ...],
) -> int:
    """Run a command beside the head process. What it prints is shown; Ctrl-C leaves the job running."""
    client = _client(address)
    environment = _environment(runtime_env, runtime_env_json, working_dir)
    submitted = _asked(
        lambda: client.submit_job(
            entrypoint=shlex.join(entrypoint) if len(entrypoint) > 1 else entrypoint[0],
            submission_id=submission_id or job_id,
            runtime_env=environment,
            metadata=_json(metadata_json, "--metadata-json"),
            entrypoint_num_cpus=entrypoint_num_cpus,
            entrypoint_num_gpus=entrypoint_num_gpus,
            entrypoint_memory=entrypoint_memory,
            entrypoint_resources=_json(entrypoint_resources, "--entrypoint-resources"),
            entrypoint_label_selector=_json(entrypoint_label_selector, "--entrypoint-label-selector"),
            weight=weight,
            cpus=cpus,
            memory=_size(memory, "--memory"),
            object_store=_size(object_store, "--object-store"),
        )
    )
    found = _await_start(client, submitted)
    click.echo(_where(client, found))
    if no_wait:
        click.echo(f"Follow it:  sundog job logs -f {submitted}\nStop it:    sundog job stop {submitted}")
        return exits.OK
    return _follow(client, submitted)


@command.command("status")
@click.argument("job_id")
@_address
@_headers
@_verify
@style_flags
def status(job_id: str, address: str | None) -> int:
    """Show the state of a job."""
    client = _client(address)
    found = _asked(lambda: client.get_job_info(job_id))
    click.echo(_line(found))
    if limits := _limits(found):
        click.echo(limits)
    return exits.OK


@command.command("logs")
@click.argument("job_id")
@click.option("-f", "--follow", is_flag=True, help="Follow the output until the job ends.")
@_address
@_headers
@_verify
@style_flags
def logs(job_id: str, follow: bool, address: str | None) -> int:
    """Show what a job printed."""
    client = _client(address)
    if follow:
        return _follow(client, job_id)
    click.echo(_asked(lambda: client.get_job_logs(job_id)), nl=False)
    return exits.OK


@command.command("records")
@click.argument("job_id")
@click.option("-o", "--output", "file", metavar="FILE", help="The file to write; by default JOB_ID.sundog.")
@_address
@_headers
@_verify
@style_flags
def records(job_id: str, file: str | None, address: str | None) -> int:
    """Copy the records of a job on a Ray cluster into a file here; every command reads it with --session FILE."""
    from sundog.observe.words import in_units

    client = _client(address)
    data = _asked(lambda: client.get_job_records(job_id))
    path = file or f"{job_id}.sundog"
    try:
        # Records tell arguments and output: they are for the user alone, whatever the umask.
        with open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as made:
            made.write(data)
    except OSError as error:
        raise exits.CommandError(f"{path} cannot be written: {error.strerror or error}") from None
    click.echo(f"{path}: {in_units(len(data))}. Look at it with: sundog timeline --session {path}")
    return exits.OK


@command.command("stop")
@click.argument("job_id")
@click.option("--no-wait", is_flag=True, help="Do not wait until the job has ended.")
@_address
@_headers
@_verify
@style_flags
def stop(job_id: str, no_wait: bool, address: str | None) -> int:
    """End a job: SIGTERM, and SIGKILL after 3 s."""
    client = _client(address)
    if not _asked(lambda: client.stop_job(job_id)):
        click.echo(_line(_asked(lambda: client.get_job_info(job_id))))
        return exits.OK
    if no_wait:
        click.echo(f"Job {job_id} was asked to end.")
        return exits.OK
    while not (found := _asked(lambda: client.get_job_info(job_id))).status.is_terminal():
        time.sleep(_LOOK_S)
    click.echo(_line(found))
    return exits.OK


@command.command("list")
@rows.format_option(default="a table")
@_address
@_headers
@_verify
@style_flags
def list_(form: str, address: str | None) -> int:
    """List the jobs of a session: submitted ones, then programs that joined by themselves."""
    client = _client(address)
    found = [_row(each) for each in _asked(client.list_jobs)]
    if not found and form in ("default", "table"):
        click.echo("There are no jobs.")
        return exits.OK
    rows.show(found, "table" if form == "default" else form)
    return exits.OK


@command.command("delete")
@click.argument("job_id")
@_address
@_headers
@_verify
@style_flags
def delete(job_id: str, address: str | None) -> int:
    """Delete a job that has ended, and its output."""
    client = _client(address)
    _asked(lambda: client.delete_job(job_id))
    click.echo(f"Job {job_id} is deleted.")
    return exits.OK


# ---------------------------------------------------------------------- words
def _where(client: "JobSubmissionClient", found: "JobDetails") -> str:
    """Where a job went: session, address, process."""
    at = f"pid {found.entrypoint_pid}" if found.entrypoint_pid else f"{found.status}: {found.message}"
    return f"Job {found.submission_id} went to {client.get_session_name()} at {client.get_address()} ({at})."


def _line(found: "JobDetails") -> str:
    return f"Job {found.submission_id or found.job_id}: {found.status}. {found.message or ''}".rstrip()


def _limits(found: "JobDetails") -> str:
    """What a job may use, and how it is held to it; nothing for one without limits."""
    parts = [f"memory {in_units(found.memory)}"] if found.memory else []
    parts += [f"object store {in_units(found.object_store)}"] if found.object_store else []
    if not parts:
        return ""
    guard = f" (memory: {found.memory_guard})" if found.memory_guard else ""
    return f"It may use: {', '.join(parts)}{guard}."


def _row(found: "JobDetails") -> dict[str, object]:
    def when(ms: int | None) -> str | None:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(ms / 1000)) if ms else None

    return {
        "submission_id": found.submission_id,
        "job_id": found.job_id,
        "type": found.type.value,
        "status": found.status.value,
        "began": when(found.start_time),
        "ended": when(found.end_time),
        "exit_code": found.driver_exit_code,
        "entrypoint": found.entrypoint,
        "message": found.message,
    }


# ---------------------------------------------------------------------- asking
T = TypeVar("T")


def _asked(question: Callable[[], T]) -> T:
    """The answer of the head process; a refusal is one sentence."""
    try:
        return question()
    except RuntimeError as error:
        raise exits.CommandError(str(error)) from None


def _client(address: str | None) -> "JobSubmissionClient":
    from sundog.job_submission import JobSubmissionClient

    try:
        return JobSubmissionClient(address, headers=click.get_current_context().meta.get(_HEADERS))
    except ConnectionError as error:
        raise exits.UnfitSession(str(error)) from None
    except RuntimeError as error:
        raise exits.CommandError(str(error)) from None


def _await_start(client: "JobSubmissionClient", job_id: str) -> "JobDetails":
    """The job as it is once it has a process; one that must wait is shown as it waits."""
    deadline = time.monotonic() + 2.0
    while True:
        found = _asked(lambda: client.get_job_info(job_id))
        if found.entrypoint_pid or found.status.is_terminal() or time.monotonic() > deadline:
            return found
        time.sleep(0.02)


def _follow(client: "JobSubmissionClient", job_id: str) -> int:
    """Show what a job prints until its end; the exit code tells whether it succeeded."""
    try:
        for text in client.follow_logs(job_id):
            sys.stdout.write(text)
            sys.stdout.flush()
    except KeyboardInterrupt:
        click.echo(f"\nThe job continues. Stop it: sundog job stop {job_id}", err=True)
        return exits.INTERRUPTED
    except RuntimeError as error:
        raise exits.CommandError(str(error)) from None
    found = _asked(lambda: client.get_job_info(job_id))
    click.echo(_line(found), err=True)
    return exits.OK if found.status.value == "SUCCEEDED" else exits.FAILED


def _size(text: str | None, option: str) -> int | None:
    if text is None:
        return None
    from sundog.jobs.sizes import read_size

    try:
        return read_size(text, option)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _json(text: str | None, option: str) -> "JsonObject | None":
    if text is None:
        return None
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise click.UsageError(f"{option} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise click.UsageError(f"{option} must be a JSON object, not {text}")
    return found


def _environment(file: str | None, text: str | None, working_dir: str | None) -> "JsonObject":
    if file is not None and text is not None:
        raise click.UsageError("--runtime-env and --runtime-env-json mean the same: give only one of them.")
    found = _json(text, "--runtime-env-json") or {}
    if file is not None:
        from sundog.runtime_env import RuntimeEnv

        found = _from_file(file)
        RuntimeEnv(**found)
    if working_dir is not None:
        found["working_dir"] = working_dir
    return dict(found)


def _from_file(file: str) -> "JsonObject":
    try:
        with open(file, encoding="utf-8") as source:
            text = source.read()
    except OSError as error:
        raise exits.CommandError(f"{file} cannot be read: {error.strerror}") from None
    try:
        import yaml
    except ImportError:
        return dict(_json(text, "--runtime-env") or {})
    try:
        found = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise click.UsageError(f"{file} is not YAML: {error}") from None
    if not isinstance(found, dict):
        raise click.UsageError(f"{file} must have names and values.")
    return found
