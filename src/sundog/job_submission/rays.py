"""Jobs of a Ray cluster: what is otherwise there than at sundog's own head process.

Owns what is shipped with a job (sundog itself, and the setting that names the engine), what is refused there, how its
output is followed, and how its records come to this machine: a second job prints them (`ray_engine/handing.py`). Runs
in the client's process.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from sundog.jobs.rows import JobStatus

if TYPE_CHECKING:
    from sundog.plain import JsonObject

_LIMITS = ("weight", "cpus", "memory", "object_store")
_LOOK_S = 0.5
_NO_AGENT = "No available agent"  # Ray's head says so until the first process that starts jobs has reported
_AGENT_S = 60.0


def is_ray(version: JsonObject) -> bool:
    """Whether the answer of `/api/version` is Ray's own.

    >>> is_ray({"ray_version": "2.60.0"}), is_ray({"ray_version": "2.60.0", "sundog_version": "0.1"})
    (True, False)
    """
    return "ray_version" in version and "sundog_version" not in version


def submitted(submit: Callable[[], str], clock: Callable[[], float] = time.monotonic) -> str:
    """Submit a job; while the cluster is not ready to start jobs, again and again for a minute.

    Raises:
        RuntimeError: the cluster refuses the job, or is not ready in time.
    """
    deadline_s = clock() + _AGENT_S
    while True:
        try:
            return submit()
        except RuntimeError as error:
            if _NO_AGENT not in str(error) or clock() >= deadline_s:
                raise
        time.sleep(_LOOK_S)


def refuse_limits(asked: JsonObject) -> None:
    """Refuse what only sundog's own head process can carry out.

    Raises:
        RuntimeError: one of these was asked for.

    >>> refuse_limits({"cpus": 2})
    Traceback (most recent call last):
    ...
    RuntimeError: cpus= does not work on a Ray cluster: jobs of a Ray cluster have no limits of their own.
    """
    for name in _LIMITS:
        if asked.get(name) is not None:
            raise RuntimeError(
                f"{name}= does not work on a Ray cluster: jobs of a Ray cluster have no limits of their own."
            )


def with_sundog(runtime_env: JsonObject) -> JsonObject:
    """A job's environment with sundog in it, as a folder of this machine, and with Ray as its engine."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    modules = list(runtime_env.get("py_modules") or [])
    if not any(os.path.basename(str(each)) == "sundog" for each in modules):
        modules.append(package)
    variables = {"SUNDOG_ENGINE": "ray", **(runtime_env.get("env_vars") or {})}
    return {**runtime_env, "py_modules": modules, "env_vars": variables}


def follow(read: Callable[[], str], status: Callable[[], JobStatus]) -> Iterator[str]:
    """What a job prints, as it comes, until its end."""
    shown = 0
    while True:
        ended = status().is_terminal()  # read before the log: text printed after the last read is not missed
        text = read()
        if len(text) > shown:
            yield text[shown:]
            shown = len(text)
        if ended:
            return
        time.sleep(_LOOK_S)
