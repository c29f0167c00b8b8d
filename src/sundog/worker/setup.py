"""Preparing a worker process: for its job when it is forked, for each lease it serves.

Owns the process' environment, working folder, import path and title. Main thread only.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

from sundog import events, notices
from sundog.config import live_environ, set_child_environ
from sundog.events import NoRing, Ring
from sundog.isolation import take_over
from sundog.job_spec import JobSpec
from sundog.owner import context
from sundog.worker import numeric_threads
from sundog.worker.accelerators import Accelerators

if TYPE_CHECKING:
    from sundog.wire.dicts import LeaseSetup

_F_SETSIG = 10
_users_own: frozenset[str] | None = None
accelerators: Accelerators | None = None  # of this process, set when it begins to serve


def die_with_node(lifeline: int) -> None:
    """Have the kernel kill this process when the node's end of a pipe closes, whatever Python is doing.

    The pipe carries nothing; its read end becomes readable only at the node's death, and the kernel then
    sends SIGKILL. It is opened anew because the setting belongs to the open file, which forks share.
    """
    fd = os.open(f"/proc/self/fd/{lifeline}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.fcntl(fd, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(fd, _F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_ASYNC)
    os.close(lifeline)


def join_job(job: JobSpec) -> None:
    """Take over the driver's import path, folder and environment, and the job's runtime environment."""
    try:
        if job.cwd:
            os.chdir(job.cwd)
    except OSError:
        os.chdir("/")
    take_over(job.interpreter)
    if job.notices is not None:
        level, form, ours = job.notices
        notices.configure(level=level, form=form, ours=ours)
    if job.logging is not None:
        from sundog import logging_config

        logging_config.apply(job.logging)
    reseed()


def offer_to_kernel(adjustment: int) -> None:
    """If the kernel has to end a process because of memory, let it choose a worker: its task can be retried."""
    if adjustment:
        with contextlib.suppress(OSError):
            fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(fd, b"%d" % adjustment)
            finally:
                os.close(fd)


def be_nice(niceness: int) -> None:
    """Lower the priority of this process; a niceness that the user has set higher stays."""
    if niceness:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, max(niceness, os.getpriority(os.PRIO_PROCESS, 0)))


def preload(names: str) -> None:
    """Import modules before the first task needs them; a module that fails is reported and left out."""
    from importlib import import_module

    for name in filter(None, map(str.strip, names.split(","))):
        try:
            import_module(name)
        except Exception as error:
            notices.warn(f"preload_python_modules: {name} cannot be imported in a worker: {error!r}")


def reseed() -> None:
    """Forked processes must not draw the same random numbers (Python's own module sees to itself)."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and "numpy.random" in sys.modules:
        numpy.random.seed()


def apply_lease(setup: LeaseSetup) -> None:
    """Prepare for the tasks of one lease: GPUs, threads of numeric libraries, placement group."""
    facts = context.facts
    resources = setup.get("resources") or {}
    facts.resources = dict(resources)
    updates: dict[str, str | None] = {}
    if accelerators is not None:
        facts.accelerators = {
            kind: accelerators.named(kind, ids) for kind, ids in setup.get("accelerators") or ()
        }
        updates = accelerators.variables(facts.accelerators)
    context.inherit(setup.get("pg_id"), bool(setup.get("capture")))
    threads = str(max(1, int(resources.get("CPU", 1))))
    environ = live_environ
    global _users_own
    if _users_own is None:
        # Values that are set before the first lease are the user's: from the shell, or from a runtime_env.
        _users_own = frozenset(variable for variable in numeric_threads.VARIABLES if variable in environ)
    for variable in numeric_threads.VARIABLES:
        if variable not in _users_own and environ.get(variable) != threads:
            updates[variable] = threads
    if updates:
        set_child_environ(updates)
    numeric_threads.tell(environ)


def note_lease(ring: Ring | NoRing, setup: LeaseSetup) -> None:
    """Record the resources of the lease once, so that the record of each task need not contain them."""
    resources = setup.get("resources") or {}
    group = setup["pg_id"].hex() if setup.get("pg_id") else ""
    wall_s = time.time()
    text = lease_text(resources, group, context.facts.runtime_env or {})
    ring.write(events.LEASE, b"", ring.name(text, "lease"), wall_s, wall_s, wall_s)


def lease_text(resources: dict[str, float], group: str, env: dict[str, object]) -> str:
    """What a lease holds, as JSON; without the values of variables that look like secrets.

    >>> lease_text({"CPU": 1.0}, "", {})
    '{"resources": {"CPU": 1.0}, "pg": "", "env": {}}'
    """
    if not env and all(name.isidentifier() and name.isascii() for name in resources):
        # The common case, written out: importing json would delay the first task.
        amounts = ", ".join(f'"{name}": {float(amount)!r}' for name, amount in resources.items())
        return f'{{"resources": {{{amounts}}}, "pg": "{group}", "env": {{}}}}'
    import json

    from sundog.secrecy import for_records

    return json.dumps({"resources": resources, "pg": group, "env": for_records(env)}, default=repr)
