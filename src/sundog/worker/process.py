"""A worker process from fork to end.

::

    zygote: Parts ─fork─► setup ─► owner (reader thread) + serving (main thread)
    node ──lane, construct, terminate, stop, peer──► reader thread ──wake──► main thread

Owns the order of things at start and at the end. What needs no process of its own is built in the zygote before the
fork (`Parts`), once for all workers: building it takes longer than all the rest of a worker's start, and what a
process only reads it shares with the others. A worker dies with the node (by the kernel), ends when
the node says so, or when its actor has ended.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import contextlib
import errno
import faulthandler
import os
import pickle
import resource
import signal
import sys
import time
from typing import TYPE_CHECKING

from sundog import engines
from sundog.config import Config, live_environ
from sundog.exceptions import RuntimeEnvSetupError
from sundog.net import sockets as socket
from sundog.net.packets import Connection
from sundog.net.spare import NO_DESCRIPTOR
from sundog.owner import context, interrupts, robbed
from sundog.owner.assemble import assemble, begin
from sundog.system.descriptors import MACHINE_IS_FULL
from sundog.titles import Title
from sundog.wire.control import ActorExit, Leaving, SetupFailed, StartFailed
from sundog.worker import endings, messages, setup, stdio
from sundog.worker.accelerators import Accelerators
from sundog.worker.actor_life import ActorLife, own_repr
from sundog.worker.breakpoints import Breakpoints
from sundog.worker.executor import Executor
from sundog.worker.inline import Inline
from sundog.worker.meter import Meter
from sundog.worker.sampler import LineSampler
from sundog.worker.serving import Serving

if TYPE_CHECKING:
    from types import FrameType

    from sundog.engines.local import LocalEngine
    from sundog.owner.core import Owner
    from sundog.wire.dicts import WorkerCommon, WorkerSpec
    from sundog.wire.looks import RunningCall


_executor: Executor | None = None
_SIGINT = int(signal.SIGINT)
_NO_MEMORY = (
    b"This worker had to end: for some seconds it had no memory to read a message with. Code that ran in it has used "
    b"up its memory, or lowered its limit (resource.setrlimit, ulimit -d, ulimit -v).\n"
)


class _Told(Exception):
    """Ends a worker whose error has been printed and reported already."""


def _end_for_shortage(owner: Owner) -> None:
    """A process sent this one a socket for which it has no descriptor: its tasks must not wait here for ever."""
    _tell_shortage(owner)
    os._exit(1)


def _is_robbed(owner: Owner) -> bool:
    with owner.lock:
        return owner.closed is None and not owner.reactor.has_descriptors()


def _end_if_robbed(owner: Owner) -> bool:
    """The user's code has closed the sockets of this process: no reply can be sent, and no task received."""
    if not _is_robbed(owner):
        return False
    print(robbed.WORKER, file=sys.stderr)
    try:
        stdio.flush_all()
    finally:
        os._exit(1)


def _end_without_memory() -> None:
    """No message can be read, so tasks and calls would wait here for ever; another worker takes the tasks."""
    os.write(2, _NO_MEMORY)
    os._exit(1)


def _tell_shortage(owner: Owner, number: int = errno.EMFILE) -> None:
    """The user's code has used up the descriptors of this process, and not even an error can be put together."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    reason = (
        f"it had used up its {limit:,} file descriptors: close files and sockets, or raise the limit before the "
        "program starts (ulimit -n)"
    )
    if number == errno.ENFILE:
        reason = MACHINE_IS_FULL
    with contextlib.suppress(OSError):
        owner.control.send(Leaving(reason, intended=False))


class Parts:
    """What runs tasks and calls in a worker, connected with its owner.

    Without a descriptor, a thread or a handler of a signal, so a fork may copy it.
    """

    def __init__(self, common: WorkerCommon) -> None:
        self._common = common
        session, self.config = common["session"], Config(**common["config"])
        self.owner = owner = assemble(session, self.config, "worker")
        self.executor = executor = Executor(owner)
        self.accelerators = Accelerators(self.config, live_environ)
        self.serving = serving = Serving(owner, executor)
        self.life = life = ActorLife(owner, executor, serving)
        executor.sampler = LineSampler(executor, lambda: life.serving.oldest_call())
        owner.before_block, owner.after_block = serving.before_block, serving.after_block
        self.inline = Inline(owner, executor, serving)
        owner.run_here = self.inline.run
        owner.actor_here = lambda: executor.actor
        owner.long_waits.places = lambda main_runs: life.serving.places(main_runs)
        owner.call_of = _call_of
        owner.running_calls = lambda: life.serving.running_calls()
        breakpoints = executor.breakpoints = Breakpoints(owner, life)
        owner.control.table = owner.control.table.joined(messages.from_node(owner, life, breakpoints))
        owner.control.on_lost = lambda: os._exit(1)
        owner.reactor.is_robbed = lambda: _end_if_robbed(owner)
        owner.reactor.on_no_memory = _end_without_memory
        owner.control.table.bereft = lambda _message: _end_for_shortage(owner)
        owner.peers.table = owner.peers.table.joined(messages.from_peers(owner, life, executor))
        owner.peers.on_death = executor.gates.owner_died
        self._modules = len(sys.modules)  # `serving` takes those that are loaded later for the worker's own

    def fit(self, common: WorkerCommon) -> bool:
        """Whether a worker of this description may use them."""
        mine = self._common
        alike = mine is common or (
            mine["session"] == common["session"] and mine["config"] == common["config"]
        )
        return alike and self._modules == len(sys.modules)


def run(common: WorkerCommon, spec: WorkerSpec, parts: Parts | None, control_fd: int, lifeline: int) -> None:
    """Be a worker; does not return."""
    code = 1
    try:
        setup.die_with_node(lifeline)
        os.setpgid(0, 0)
        code = _serve(common, spec, parts, control_fd)
    except _Told:
        pass
    except BaseException as error:
        if isinstance(error, OSError) and error.errno in NO_DESCRIPTOR and parts is not None:
            # To print a traceback, modules would have to be imported.
            _tell_shortage(parts.owner, error.errno)
        elif isinstance(error, OSError) and parts is not None and _is_robbed(parts.owner):
            print(robbed.WORKER, file=sys.stderr)
        else:
            import traceback

            traceback.print_exc()
    finally:
        try:
            stdio.flush_all()
        finally:
            os._exit(code)


def _join(common: WorkerCommon, spec: WorkerSpec, parts: Parts | None, control_fd: int) -> Parts:
    """Become a worker of the session: its facts, its output, its limits, its owner."""
    session, job, worker_id = common["session"], common["job"], spec["worker_id"]
    settings = common["config"]
    facts = context.facts
    facts.mode, facts.process_id, facts.node_id = "worker", worker_id, session["node_id"]
    facts.job_id, facts.session, facts.namespace = job.job_id, session, job.namespace
    facts.runtime_env = spec.get("runtime_env") or {}
    facts.detached_by_default = job.detached
    stdio.redirect(
        spec["out_path"],
        spec["err_path"],
        _current_name,
        max_bytes=settings["log_rotation_max_bytes"],
        backups=settings["log_rotation_backup_count"],
    )
    _write_faults_to(spec["err_path"])
    customizes = any(name not in sys.modules for name in job.interpreter.customizers)
    setup.join_job(job)
    parts = parts or Parts(common)
    config = parts.config
    # What the driver's interpreter runs at its start may have set variables, in this process only.
    setup.accelerators = Accelerators(config, live_environ) if customizes else parts.accelerators
    setup.offer_to_kernel(config.worker_oom_score_adjustment)
    setup.be_nice(config.worker_niceness)
    begin(parts.owner, worker_id, Connection(socket.socket(fileno=control_fd), session["shm_root"]))
    if session.get("node_tag"):
        parts.owner.ring.note("home", node=session["node_id"].hex())
    return parts


def _begin(parts: Parts) -> tuple[Executor, ActorLife]:
    """Have the parts work for this process: its descriptors, its signals, its title."""
    global _executor
    executor = _executor = parts.executor
    owner, serving, life = parts.owner, parts.serving, parts.life
    executor.meter, executor.title = Meter(executor.ring), Title()
    serving.open()
    parts.inline.begin()
    _signal.signal(_SIGINT, serving.interrupt)  # not the module's own: see `zygote.py`
    endings.Terminations(life, executor).install()
    interrupts.install(owner.lock)
    interrupts.ended = lambda error: life.stop(f"sys.exit({error.code!r}) was called in a signal handler")
    os.register_at_fork(after_in_child=lambda: life.serving.disown())
    os.register_at_fork(after_in_child=executor.disown)
    executor.breakpoints.install()
    return executor, life


def _serve(common: WorkerCommon, spec: WorkerSpec, parts: Parts | None, control_fd: int) -> int:
    parts = _join(common, spec, parts, control_fd)
    executor, life = _begin(parts)
    owner, config = parts.owner, parts.config
    engines.plug_later(lambda: _make_engine(owner, executor))
    _apply_runtime_env(owner, spec)
    if common["job"].compat:
        from importlib import import_module

        import_module("sundog.compat").install()
    if config.preload_python_modules:
        setup.preload(config.preload_python_modules)
    if config.tracing_startup_hook:
        from sundog.worker import tracing

        tracing.begin(config.tracing_startup_hook, executor, life)
    if not owner.reactor.thread.is_alive():
        _start_reader(owner)
    reason = life.run()
    reason = executor.exit_after or reason  # the node may have asked the worker to stop at the same moment
    endings.let_go(executor, config.actor_graceful_shutdown_timeout_ms / 1000)
    if executor.actor_id is not None and executor.exit_after is not None and not executor.exit_code:
        # Sent after the last replies: callers then fail the calls that have no answer.
        owner.control.send(ActorExit(executor.actor_id, reason))
    else:
        owner.control.send(Leaving(reason, not executor.exit_code))
    return executor.exit_code


def _call_of(frame: FrameType) -> RunningCall | None:
    from sundog.worker.running import call_of  # loaded when this process is inspected for the first time

    return call_of(frame)


def _write_faults_to(path: str) -> None:
    """Have the stacks of a crash written to a file, whatever user code does to descriptor 2."""
    try:
        # a descriptor of its own, open until the end of the process
        faulthandler.enable(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError:
        faulthandler.enable(2)  # the disk is full


def _make_engine(owner: Owner, executor: Executor) -> LocalEngine:
    from sundog.engines.local import LocalEngine

    engine = LocalEngine(owner, is_driver=False)
    engine.executor = executor
    engine.listen()
    return engine


def _start_reader(owner: Owner) -> None:
    """Answer messages from now on."""
    try:
        owner.reactor.start()
    except RuntimeError as error:
        from sundog.system import process_limit  # loaded only when no thread can be started

        owner.control.send(StartFailed(f"{error}. {process_limit.text()}"))
        raise _Told from error


def _apply_runtime_env(owner: Owner, spec: WorkerSpec) -> None:
    prepared = spec.get("prepared_env")
    if prepared:
        try:
            env = pickle.loads(prepared)
            if env.needs_prepare:
                from sundog import runtime_env

                log = f"{env.pip_dir}.log" if env.pip_dir else ""
                owner.ring.note("preparing", at_s=time.time(), log=log)
                # This may take minutes, and commands ask every process what it does and owns.
                _start_reader(owner)
                runtime_env.prepare(env)
                owner.ring.note("prepared", at_s=time.time())
            env.apply_in_worker()
        except _Told:
            raise
        except BaseException as error:
            if isinstance(error, RuntimeEnvSetupError):
                print(error, file=sys.stderr, flush=True)  # sundog's own frames would add nothing
            else:
                import traceback

                traceback.print_exc()
            facts = vars(error) if isinstance(error, RuntimeEnvSetupError) else {}
            evidence = {name: value for name, value in facts.items() if name != "message"}
            owner.control.send(SetupFailed(f"{type(error).__name__}: {error}", evidence))
            raise _Told from error


def _current_name() -> str:
    """What the lines printed now are shown under, and the id of the task that prints them (`stdio.name_mark`)."""
    running = context.current()
    facts = context.facts
    name = _actor_label(facts) if facts.actor_id is not None else running.name if running is not None else ""
    if running is None:
        return name
    # From the second attempt on, the attempt number follows the id, in hexadecimal
    # (`observe/log_reading.py`).
    attempt = f"{running.attempt:x}" if running.attempt else ""
    return f"{name}\0{running.task_id.hex()}{attempt}"


def _actor_label(facts: context.ProcessFacts) -> str:
    return own_repr(_executor.actor if _executor is not None else None) or facts.actor_class


if __name__ == "__main__":
    sys.exit("the worker is forked by the zygote; it is not a command")
