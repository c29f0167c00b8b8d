"""What `init()` takes: wrong names and values are refused with the right ones.

Owns the checks, and two options that need other modules; what the others do is decided in `api.py`. Any process that
calls `init()`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from sundog import notices
from sundog.engines import started
from sundog.job_config import JobConfig, submitted_job
from sundog.printable import printable
from sundog.signatures import Signature

if TYPE_CHECKING:
    from sundog.config import Config
    from sundog.engines.heads import Head
    from sundog.engines.local import LocalEngine
    from sundog.job_spec import JobSpec

# Other private parameters of Ray's `init`, without effect here: sundog has no such process, port or password.
# Only the port of the metrics has an effect (`api.init`).
WITHOUT_EFFECT = frozenset(
    {
        "_cluster_id",
        "_driver_object_store_memory",
        "_enable_object_reconstruction",
        "_metrics_export_port",
        "_node_ip_address",
        "_node_name",
        "_plasma_directory",
        "_redis_password",
        "_redis_username",
        "_skip_env_hook",
    }
)


class UnknownOptionError(TypeError, RuntimeError):
    """`init()` was given an option that it does not have. Ray raises a RuntimeError here, Python a TypeError."""


def check(
    init: Callable[..., object],
    other: dict[str, object],
    runtime_env: object,
    namespace: object,
    num_cpus: object,
    num_gpus: object,
    resources: object,
    labels: object,
    store: float | None,
) -> None:
    """Refuse what `init` cannot mean, before anything is started.

    Raises:
        TypeError: an option has another name, or is another kind of thing.
        ValueError: an option has no such value.
    """
    for name in other:
        if name not in WITHOUT_EFFECT:
            from difflib import get_close_matches

            known = [name for name, _, _ in Signature.of(init).parameters or () if name != "other"]
            near = get_close_matches(name, [*known, *sorted(WITHOUT_EFFECT)], 1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise UnknownOptionError(f"init() has no option {name!r}.{hint} Its options: {', '.join(known)}.")
    if not isinstance(namespace, str | None):
        raise TypeError(f"namespace must be a string, not {namespace!r}.")
    if namespace == "":
        raise ValueError('namespace must not be "": leave it out to get a new namespace.')
    for name, amount in (("num_cpus", num_cpus), ("num_gpus", num_gpus)):
        if amount is not None and not _is_amount(amount):
            raise ValueError(f"{name} must be zero or a positive number, not {amount!r}.")
    if resources is not None and not isinstance(resources, dict):
        raise TypeError(f"resources must be a dict of name to amount, not {type(resources).__name__}.")
    if labels is not None and not (
        isinstance(labels, dict) and all(isinstance(each, str) for each in (*labels, *labels.values()))
    ):
        raise TypeError(f"labels must be a dict of strings to strings, not {labels!r}.")
    if runtime_env is not None and not isinstance(runtime_env, dict):
        raise TypeError(f"runtime_env must be a dict or RuntimeEnv, not {type(runtime_env).__name__}.")
    if store is not None and not (_is_amount(store) and store > 0):
        raise ValueError(f"object_store_memory must be a positive number of bytes, not {store!r}.")


def job_config_of(given: object) -> JobConfig:
    """What `init(job_config=…)` was given: nothing, a `JobConfig`, or a dict of one.

    Raises:
        TypeError: something else.
    """
    if given is None:
        return JobConfig()
    if isinstance(given, dict):
        return JobConfig.from_json(given)
    if not isinstance(given, JobConfig):
        raise TypeError(f"job_config must be a sundog.job_config.JobConfig, not {type(given).__name__}.")
    return given


def say_what_is_ignored(
    config: Callable[..., list[str]], other: dict[str, object], system: dict[str, object]
) -> None:
    """At debug level: what Ray would have heeded, and sundog does not."""
    if notices.is_debugging():
        names = [*other, *config(system)]
        if names:
            notices.detail(f"Settings of Ray that have no effect here: {', '.join(names)}.")


def warn_of_mistyped(variables: list[tuple[str, str]]) -> None:
    """Variables with sundog's prefix that set nothing."""
    for name, near in variables:
        hint = f" Did you mean {near}?" if near else " All settings: python -m sundog.config"
        notices.warn(f"The variable {name} sets nothing: there is no such setting.{hint}")


def check_logging(form: object, config: object) -> None:
    """The same for what it is told of logging."""
    if form is not None and not isinstance(form, str):
        raise TypeError(f"logging_format must be a format string of the module logging, not {form!r}.")
    if config is not None:
        from sundog.logging_config import LoggingConfig

        if not isinstance(config, LoggingConfig):
            raise TypeError(f"logging_config must be a sundog.LoggingConfig, not {type(config).__name__}.")


def _is_amount(value: object) -> bool:
    # NaN fails every comparison, so it is in no range.
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < float("inf")


def session_to_join(address: str | None, config: Config) -> str | None:
    """Which session an `init()` joins: the one that is named, else the one that `sundog start` or a `Cluster` started.

    None, or "local", if it is to start one.
    """
    wanted = config.address or address if address in (None, "auto") else address
    if wanted in (None, "auto"):
        found = started.find(config.temp_dir)
        return found.path if found is not None else wanted
    return wanted


def refuse_for_joined(wanted: str, address: str | None, **given: object) -> None:
    """What belongs to a new session cannot be given to one that runs.

    Raises:
        ValueError: something is given.
    """
    names = [name for name, value in given.items() if value is not None]
    if names:
        found = "" if address is not None else " It was found because `sundog start` or a Cluster started it."
        own = (
            "leave out the address"
            if address is not None
            else 'say address="local" for a session of your own'
        )
        raise ValueError(
            f"{' and '.join(names)} must not be provided when joining a running session, which has its own: "
            f"{printable(wanted)}.{found} Leave out what belongs to a new session, or {own}."
        )


def take_part(job: JobSpec, address: str, runtime_env: dict[str, object] | None) -> dict[str, object] | None:
    """In the entrypoint of a submitted job: be that job's driver, with its environment below the program's own."""
    facts = submitted_job(address)
    if not facts:
        return runtime_env
    from sundog import runtime_env as environments

    job.submission_id = str(facts["submission_id"])
    return environments.merge(facts.get("runtime_env") or {}, runtime_env) or None


@contextlib.contextmanager
def head_of(wanted: bool | None, host: str, port: int | None, first_port: int) -> Iterator[Head | None]:
    """The head process that a new session is to have; none unless it was asked for.

    Raises:
        ValueError: the port is taken.
    """
    if not wanted:
        yield None
        return
    from sundog.engines import heads

    try:
        head = heads.make_head(host, port, first_port)
    except heads.NotInstalled as error:
        # The program works without it: a fixture or a launcher may ask for it everywhere.
        notices.warn(str(error))
        yield None
        return
    except heads.PortTaken as error:
        raise ValueError(str(error)) from None
    with head.listener:
        yield head


def begin_tracing(engine: LocalEngine, give_up: Callable[[], None]) -> None:
    """Make spans of what this program submits, until it leaves the session (see `observe/spans.py`).

    Raises:
        ImportError: OpenTelemetry is not installed.
        ValueError: the hook is none, or failed.
    """
    from sundog import engines
    from sundog.observe import spans

    try:
        spans.check_hook(engine.owner.config.tracing_startup_hook)
        spans.begin_driver(engine)
    except BaseException:
        spans.end_quietly()
        give_up()
        raise
    engines.when_leaving(spans.end)


class SessionStart:
    """Within it a session starts. If it does not, a terminal shows the sentence that says why, without our frames."""

    def __init__(self, system_config: Mapping[str, object] | None) -> None:
        self.system_config = system_config

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            from sundog.engines import tracebacks

            tracebacks.after_failed_start(self.system_config)
