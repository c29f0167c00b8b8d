"""A worker process from fork to end.

::

    zygote ─fork─► setup ─► owner (reader thread) + serving (main thread)
    node ──lane, construct, terminate, stop, peer──► reader thread ──wake──► main thread

Owns the order of things at start and at the end. A worker dies with the node (by the kernel), ends when
the node says so, or when its actor has ended.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import signal
import sys
import time
from typing import TYPE_CHECKING

from sundog import engines
from sundog.config import Config, user_environ
from sundog.exceptions import RuntimeEnvSetupError
from sundog.net import sockets as socket
from sundog.net.packets import Connection
from sundog.owner import context, interrupts
from sundog.owner.assemble import assemble
from sundog.wire.control import ActorExit, Leaving, SetupFailed, StartFailed
from sundog.worker import endings, messages, setup, stdio
from sundog.worker.accelerators import Accelerators
from sundog.worker.actor_life import ActorLife, own_repr
from sundog.worker.breakpoints import Breakpoints
from sundog.worker.executor import Executor
from sundog.worker.inline import Inline
from sundog.worker.sampler import LineSampler
from sundog.worker.serving import Serving

if TYPE_CHECKING:
    from types import FrameType

    from sundog.engines.local import LocalEngine
    from sundog.owner.core import Owner
    from sundog.wire.dicts import WorkerSpec
    from sundog.wire.looks import Call


_executor: Executor | None = None


class _Told(Exception):
    """Ends a worker whose error has been printed and reported already."""


def run(spec: WorkerSpec, control_fd: int, lifeline: int) -> None:
    """Be a worker; does not return."""
    code = 1
    try:
        setup.die_with_node(lifeline)
        os.setpgid(0, 0)
        code = _serve(spec, control_fd)
    except _Told:
        pass
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        try:
            stdio.flush_all()
        finally:
            os._exit(code)


def _join(spec: WorkerSpec, control_fd: int) -> Owner:
    """Become a worker of the session: its facts, its output, its limits, its owner."""
    session = spec["session"]
    job = spec["job"]
    worker_id = spec["worker_id"]
    facts = context.facts
    facts.mode, facts.process_id, facts.node_id = "worker", worker_id, session["node_id"]
    facts.job_id, facts.session, facts.namespace = job.job_id, session, job.namespace
    facts.runtime_env = spec.get("runtime_env") or {}
    facts.detached_by_default = job.detached
    stdio.redirect(
        spec["out_path"],
        spec["err_path"],
        _current_name,
        max_bytes=spec["config"]["log_rotation_max_bytes"],
        backups=spec["config"]["log_rotation_backup_count"],
    )
    _write_faults_to(spec["err_path"])
    setup.join_job(job)
    config = Config(**spec["config"])
    setup.accelerators = Accelerators(config, user_environ())
    setup.offer_to_kernel(config.worker_oom_score_adjustment)
    setup.be_nice(config.worker_niceness)
    owner = assemble(
        worker_id,
        Connection(socket.socket(fileno=control_fd), session["shm_root"]),
        session,
        config,
        "worker",
    )
    if session.get("node_tag"):
        owner.ring.note("home", node=session["node_id"].hex())
    return owner


def _build(owner: Owner) -> tuple[Executor, ActorLife]:
    """Create what runs tasks and calls here, and connect it with the owner."""
    global _executor
    executor = _executor = Executor(owner)
    serving = Serving(owner, executor)
    life = ActorLife(owner, executor, serving)
    executor.sampler = LineSampler(executor, lambda: life.serving)
    owner.before_block, owner.after_block = serving.before_block, serving.after_block
    owner.run_here = Inline(owner, executor, serving).run
    owner.long_waits.places = lambda main_runs: life.serving.places(main_runs)
    owner.call_of = _call_of
    owner.running_calls = lambda: life.serving.running_calls()
    signal.signal(signal.SIGINT, serving.interrupt)
    endings.Terminations(life, executor).install()
    interrupts.install(owner.lock)
    interrupts.ended = lambda error: life.stop(f"sys.exit({error.code!r}) was called in a signal handler")
    os.register_at_fork(after_in_child=lambda: life.serving.disown())
    os.register_at_fork(after_in_child=executor.disown)
    executor.breakpoints = Breakpoints(owner, life)
    executor.breakpoints.install()
    owner.control.table = owner.control.table.joined(messages.from_node(owner, life, executor.breakpoints))
    owner.control.on_lost = lambda: os._exit(1)
    owner.peers.table = owner.peers.table.joined(messages.from_peers(owner, life, executor))
    owner.peers.on_death = executor.gates.owner_died
    return executor, life


def _serve(spec: WorkerSpec, control_fd: int) -> int:
    owner = _join(spec, control_fd)
    executor, life = _build(owner)
    config = owner.config
    engines.plug_later(lambda: _make_engine(owner, executor))
    _apply_runtime_env(owner, spec)
    if spec["job"].compat:
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


def _call_of(frame: FrameType) -> Call | None:
    from sundog.worker.running import call_of  # loaded when this process is inspected for the first time

    return call_of(frame)


def _write_faults_to(path: str) -> None:
    """Have the stacks of a crash written to a file, whatever user code does to descriptor 2."""
    try:
        faulthandler.enable(open(path, "ab", buffering=0))
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
