"""The local engine: sundog's own runtime behind the public verbs, in a driver or in a worker.

Owns the connection of a process to its session. In a driver it also owns what workers print, and
the end of the session; in a worker those belong to `sundog.worker`. Any thread may call its verbs.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING

from sundog import config as config_module
from sundog import early, engines, isolation
from sundog.config import Config
from sundog.engines import messages, obstacles, sessions
from sundog.engines.creation import Creations
from sundog.engines.lease_requests import lease_of
from sundog.engines.refusals import Refusals
from sundog.exceptions import RaySystemError
from sundog.ids import random_id
from sundog.job_spec import JobSpec
from sundog.net import sockets as socket
from sundog.net.packets import Connection
from sundog.options import TaskOptions
from sundog.owner import assemble, context, failures, fault_dumps, interrupts, robbed, timeouts
from sundog.owner.core import Owner
from sundog.owner.rows import Fn
from sundog.plain import as_dict, replaced
from sundog.system.cores import core_wait_s
from sundog.system.descriptors import raise_limit
from sundog.wire import versions
from sundog.wire.control import Bye, Env, Goodbye, Hello, Imported, LogLines, Refused, Welcome
from sundog.wire.inspect import inspect_of
from sundog.wire.lanes import EXTRA_HIDDEN, EXTRA_INSPECT, EXTRA_PER_YIELD
from sundog.wire.row import read

if TYPE_CHECKING:
    from collections.abc import Container
    from types import TracebackType
    from typing import Protocol

    from sundog.engines.heads import Head
    from sundog.owner.crews import Crew
    from sundog.owner.logs import DriverLogs
    from sundog.wire.dicts import SessionFacts

    class Runs(Protocol):
        """What runs tasks in a worker, as far as user code asks for it."""

        cancel_wins: bool

        @property
        def cancelled(self) -> Container[bytes]: ...

        def leave(self, why: str) -> None: ...

        def exit_error(self) -> BaseException: ...


__tracebackhide__ = True  # pytest folds the frames of this file

_BAR_TOKEN = "__ray_tqdm_magic_token__"
_END_S = 5.0
_POLL_MS, _SLICE_MS = 5, 500
_PYTHON_SWITCH_S = 0.005
_SWITCH_S = 0.001
_GOODBYE_S = 2.0
_LOOK_S = 5.0  # arbitrary: how often a driver that does nothing looks whether its descriptors are still there
_SLICES = 20
_STARVED_S = 30.0  # arbitrary: how long a node that gets no processor time may take to answer the goodbye

_DEFAULTS = TaskOptions()


class LocalEngine:
    """One process' view of its session."""

    def __init__(self, owner: Owner, *, is_driver: bool, started_node: int | None = None) -> None:
        self.owner = owner
        self.is_driver = is_driver
        self.executor: Runs | None = None
        self._started_node = started_node
        self._logs: DriverLogs | None = None
        self._heard = 0  # number of batches of workers' output so far
        self._took_sigterm = False
        self._switched = False
        self._pid = os.getpid()
        self._cpu_s, self._queued_s = time.process_time(), core_wait_s()
        self.joined_s = time.time()  # when this program joined the session, by the wall clock
        self._environments: dict[str, str] = {}
        self._default_retries: int | None = None
        self.creations = Creations(owner, self.env_key)
        self.create_actor = self.creations.create
        self.refusals = Refusals(owner)
        self._said_goodbye = threading.Event()

    def listen(self) -> None:
        """Hear what the node tells a process that uses the API."""
        self.owner.control.table = self.owner.control.table.joined(
            messages.from_node(self.creations, self.refusals)
        )

    # ------------------------------------------------------------------ environments
    def env_key(self, runtime_env: dict[str, object] | None) -> str:
        """The key of a runtime environment, merged with the one this process runs in."""
        job = context.facts.job_id.hex()
        if not runtime_env and not context.facts.runtime_env:
            return f"{job}:"
        from sundog import runtime_env as environments

        merged = environments.merge(context.facts.runtime_env, runtime_env)
        if not merged:
            return f"{job}:"
        normal = environments.normalize(merged, session_dir=context.facts.session["path"])
        key = f"{job}:{normal.key}"
        if key not in self._environments:
            self._environments[key] = normal.key
            self.owner.control.send(Env(key, normal.as_runtime_env(), pickle.dumps(normal, 5)))
        return key

    # ------------------------------------------------------------------ functions
    def bind(self, function: object, name: str, options: TaskOptions, *, generator: bool) -> Fn:
        """A function with options, ready to be submitted many times."""
        own = name.rpartition(".")[2]  # as in Ray: the name without enclosing scopes
        fn = self.owner.tasks.make_fn(function, options.name or own)
        fn.function = own
        returns: object = options.num_returns
        if returns is None:
            returns = "streaming" if generator else 1
        fn.returns = returns
        fn.one = returns == 1
        fn.max_retries = self._max_retries(options)
        retry = options.retry_exceptions
        fn.retry_exceptions = _dumps_types(tuple(retry)) if isinstance(retry, (list, tuple)) else bool(retry)
        fn.max_calls = options.max_calls
        if not fn.max_calls and options.num_gpus:
            fn.max_calls = 1  # GPU memory is released only when the process ends
        limit = options._generator_backpressure_num_objects
        if limit is not None and limit > 0:
            fn.backpressure = limit
            fn.extra = {"b": limit}
        if options._num_objects_per_yield:
            fn.extra = {**(fn.extra or {}), EXTRA_PER_YIELD: options._num_objects_per_yield}
        if not options.enable_task_events:
            fn.extra = {**(fn.extra or {}), EXTRA_HIDDEN: True}
        inspect = inspect_of(options)
        if inspect is not None:
            fn.extra = {**(fn.extra or {}), EXTRA_INSPECT: inspect}
        if options.timeout_s or options.queue_timeout_s:
            fn.extra = timeouts.bind(fn, options, fn.extra)
        spec, setup = lease_of(options, self.env_key(options.runtime_env))
        fn.shape = self.owner.dispatch.shape_for(spec, setup)
        self.owner.tasks.number(fn)
        return fn

    def _max_retries(self, options: TaskOptions) -> int:
        """What the function says, else RAY_TASK_MAX_RETRIES, which a runtime_env may have set for this process.

        Raises:
            ValueError: the variable holds no number.
        """
        if options.max_retries != _DEFAULTS.max_retries:
            return options.max_retries
        if self._default_retries is None:
            text = config_module.live_environ.get("RAY_TASK_MAX_RETRIES") or str(options.max_retries)
            try:
                self._default_retries = max(int(text), -1)
            except ValueError:
                raise ValueError(
                    f"RAY_TASK_MAX_RETRIES={text!r}: it must be a whole number, or -1 for no limit."
                ) from None
        return self._default_retries

    def crew(self, options: TaskOptions, size: int, *, spoiled: bool) -> Crew:
        """This many workers for tasks with these options, held until they are given back."""
        from sundog.owner.crews import Crew  # only programs with a pool load this

        spec, setup = lease_of(options, self.env_key(options.runtime_env))
        return Crew(self.owner, size, replaced(spec, permanent=True), setup, spoiled)

    # ------------------------------------------------------------------ the driver's side
    def take_over_driver(self, log_to_driver: bool, *, prefixed: bool = True) -> None:
        """Show workers' output, guard against signals, and end the session with the process."""
        owner = self.owner
        self.listen()
        owner.control.table = owner.control.table.joined(
            messages.to_driver(self.heard_lines, self.heard_goodbye)
        )
        if log_to_driver:
            from sundog.owner.logs import DriverLogs

            config = owner.config
            self._logs = DriverLogs(
                job_id=context.facts.job_id,
                takes=_draws_bar,
                prefixed=prefixed,
                dedup=config.dedup_logs,
                window_s=config.dedup_logs_agg_window_s,
                allow=config.dedup_logs_allow_regex,
                skip=config.dedup_logs_skip_regex,
            )
        owner.control.on_lost = self._node_lost
        owner.reactor.is_robbed, owner.reactor.idle_look_s = self._is_robbed, _LOOK_S
        engines.when_main_thread_comes(self._guard_handlers)
        if sys.excepthook is sys.__excepthook__ and not owner.config.full_tracebacks:
            sys.excepthook = _show_folded
        if "IPython" in sys.modules and not owner.config.full_tracebacks:
            _fold_in_ipython()
        if sys.getswitchinterval() == _PYTHON_SWITCH_S:
            # A driver that computes would starve the thread that reads replies and sends the next tasks.
            sys.setswitchinterval(_SWITCH_S)
            self._switched = True
        atexit.register(self._at_exit)

    def _guard_handlers(self) -> None:
        """On the main thread, the only one that may ask for signals."""
        if self.owner.closed is None:
            if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
                signal.signal(signal.SIGTERM, _leave)
                self._took_sigterm = True
            interrupts.install(self.owner.lock)
            fault_dumps.listen(context.facts.session["path"], politely=True)

    def _node_lost(self) -> None:
        """Under the owner's lock: the node is gone, so is everything else."""
        error = self.owner.control.lost_error()
        assemble.dismantle(self.owner, error)
        sessions.bury(context.facts.session)

    def _is_robbed(self) -> bool:
        """Whether the program has closed descriptors of sundog's; if so, the session ends here."""
        with self.owner.lock:
            if self.owner.closed is not None or self.owner.reactor.has_descriptors():
                return False
            assemble.dismantle(self.owner, robbed.error())
        fault_dumps.stop()
        return True

    def let_go(self) -> None:
        """In a child that the program forked, and that may outlive it: to the node, the end of this socket is the end
        of the driver.
        """
        if self.is_driver:
            with contextlib.suppress(OSError):
                self.owner.node.close()

    # ------------------------------------------------------------------ the end
    def _at_exit(self) -> None:
        if os.getpid() == self._pid and engines.current() is self:
            with contextlib.suppress(Exception):
                self.shutdown()

    def shutdown(self) -> None:
        """Leave the session; it ends with its last driver. Waits until nothing of it is left."""
        owner = self.owner
        if self.is_driver:
            for hook in list(engines.before_end):
                hook(self)
            owner.pauses.await_prompts(lambda: owner.closed is not None)
        if engines.current() is self:
            engines.plug(None)
        if self._switched and sys.getswitchinterval() == _SWITCH_S:
            sys.setswitchinterval(_PYTHON_SWITCH_S)
        atexit.unregister(self._at_exit)
        self._is_robbed()
        already = owner.closed is not None
        if not already:
            failures.note_unfinished(owner)
            if self.is_driver:
                self.note_use()
            self._say_goodbye()
        elif robbed.is_ours(owner.node.sock):
            with contextlib.suppress(OSError):
                owner.node.sock.shutdown(socket.SHUT_WR)  # the node is waited for before the socket is closed
        assemble.dismantle(
            owner,
            RaySystemError(
                "This session was shut down. Call sundog.init() to start another; old refs are gone."
            ),
        )
        if self._started_node is not None:
            self._await_node(self._started_node)
        assemble.release(owner)
        if self._logs is not None:
            with contextlib.suppress(Exception):
                self._logs.flush()
        if self._started_node is not None:
            # no effect, unless the node was killed while it removed the session
            sessions.bury(context.facts.session)
        context.reset()
        if self.is_driver:
            fault_dumps.stop()
            interrupts.uninstall()  # last: an exception of a handler must not leave half a session behind
        if self._took_sigterm and threading.current_thread() is threading.main_thread():
            if signal.getsignal(signal.SIGTERM) is _leave:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def note_use(self) -> None:
        """Record how much processor time this program has used since it joined, from when, and until when."""
        used_s, now = time.process_time() - self._cpu_s, time.time()
        queued_s = core_wait_s() - self._queued_s
        self.owner.ring.note("used", cpu_s=used_s, until_s=now, joined_s=self.joined_s, queued_s=queued_s)

    def _say_goodbye(self) -> None:
        """Tell the node; it sends the last of what workers printed, then that this was all."""
        lost = self._said_goodbye
        self.owner.control.on_lost = lost.set
        try:
            self.owner.node.send(Bye())
        except OSError:
            return
        heard, deadline = -1, time.monotonic() + _STARVED_S
        # While output arrives, the node is not stuck; nor is a node that waits for a processor.
        while not _wait_in_slices(lost, _GOODBYE_S) and (heard != self._heard or _is_starved(deadline)):
            heard = self._heard
        # Let the node end now, and not earlier: the node removes the session's files, and long messages are
        # files.
        with contextlib.suppress(OSError):
            self.owner.node.sock.shutdown(socket.SHUT_WR)

    def heard_lines(self, message: LogLines) -> None:
        """Workers printed something (locked)."""
        if self._logs is not None:
            self._heard += 1
            self.owner.deliveries.bring(self._logs.feed, message.batch)

    def heard_goodbye(self, _message: Goodbye) -> None:
        """The node has sent the last of the workers' output (locked)."""
        self._said_goodbye.set()

    def _await_node(self, pid: int) -> None:
        """Wait until the node's process has ended, and reap it; a node that does not end is killed."""
        poller = select.poll()
        fd, slice_ms = -1, _POLL_MS
        with contextlib.suppress(OSError):  # no descriptor is free: look again and again
            fd, slice_ms = os.pidfd_open(pid), _SLICE_MS
            poller.register(fd, select.POLLIN)
        try:
            deadline = time.monotonic() + _END_S
            while not os.waitpid(pid, os.WNOHANG)[0]:
                if time.monotonic() > deadline:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                    deadline += _END_S
                poller.poll(slice_ms)
        except ChildProcessError:
            return
        finally:
            if fd >= 0:
                os.close(fd)


def _wait_in_slices(event: threading.Event, seconds: float) -> bool:
    """Wait for an event for some seconds in which this process could run: a time that it stood still is one slice."""
    return any(event.wait(seconds / _SLICES) for _ in range(_SLICES))


def _is_starved(deadline: float) -> bool:
    """Whether the node is slow because the machine is busy."""
    from sundog import machine  # only programs on such a machine load this

    pid = int(context.facts.session.get("node_pid") or 0)
    return time.monotonic() < deadline and pid > 0 and machine.wants_processor(pid)


def _show_folded(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    try:
        from sundog.engines import tracebacks  # only programs that end with an error load this
    except (OSError, ImportError):  # no descriptor is free
        sys.__excepthook__(kind, error, trace)
        return
    tracebacks.show(kind, error, trace)


def _fold_in_ipython() -> None:
    """IPython sets no `sys.excepthook` for its cells; it asks a handler of its own."""
    from sundog.engines import tracebacks

    tracebacks.show_in_ipython()


def _draws_bar(line: str) -> bool:
    """Draw a worker's progress bar, if that is what a line of its output says."""
    if _BAR_TOKEN not in line:
        return False
    # By name: progress bars are an application of sundog, and the engine must not depend on applications.
    taken: bool = import_module("sundog.experimental.tqdm_ray").show_line(line)
    return taken


def _dumps_types(types: tuple[type, ...]) -> bytes:
    from sundog.serialize.pack import pack_function

    return pack_function(types)[0]


# ---------------------------------------------------------------------- starting and joining
@contextlib.contextmanager
def _guarded() -> Iterator[None]:
    """No handler of a signal runs in the middle of this; nor from now on in what the driver does, unless it fails."""
    on_main = threading.current_thread() is threading.main_thread()
    if on_main:
        interrupts.install(None)
    try:
        yield
    except BaseException:
        if on_main:
            interrupts.uninstall()
        raise


@_guarded()
def start(
    config: Config,
    resources: dict[str, float],
    labels: dict[str, str],
    job: JobSpec,
    *,
    log_to_driver: bool,
    head: Head | None = None,
) -> LocalEngine:
    """Start a session and be its first driver. Does not wait for its node."""
    raise_limit()
    obstacles.check()
    node_id = random_id(16)
    try:
        session, lock = sessions.make_session(config)
        pid, sock = sessions.spawn_node(
            session, lock, config, resources, labels, node_id, persistent=False, head=head
        )
    except OSError as error:
        raise obstacles.explained(error, config.shm_dir) from None
    assert sock is not None
    session["node_pid"], session["node_id"] = pid, node_id
    connection = Connection(sock, session["shm_root"])
    process_id = random_id()
    job_id = (1).to_bytes(4, "little")
    try:
        # If the node has been killed, the thread that reads its socket reports the death and its cause.
        with contextlib.suppress(ConnectionError):
            _introduce(connection, process_id, job_id, job, log_to_driver, joins=False)
        return _become_driver(process_id, connection, session, config, job_id, job, log_to_driver, pid)
    except OSError as error:
        connection.close()  # the node ends
        raise obstacles.explained(error, config.shm_dir) from None


@_guarded()
def join(info: sessions.SessionInfo, config: Config, job: JobSpec, *, log_to_driver: bool) -> LocalEngine:
    """Join a running session as one more driver.

    Raises:
        ConnectionError: the session ended, or does not answer.
        RuntimeError: this program runs on another Python, or on another sundog.
    """
    raise_limit()
    obstacles.check_polling()
    early.occupy_standard()
    connection = sessions.connect(info)
    process_id = random_id()
    _introduce(connection, process_id, None, job, log_to_driver, joins=True)
    if not connection.wait(10.0):
        connection.close()
        raise ConnectionError(f"The session {info.name} did not accept this program within 10 s.")
    received = connection.receive()
    if received is None:
        connection.close()
        raise ConnectionError(f"The session {info.name} ended while this program joined it.")
    if received[0][0] == Refused.kind:
        connection.close()
        raise RuntimeError(read(Refused, received[0]).text)
    _, session, job_id, namespace, settings = read(Welcome, received[0])
    job.namespace = namespace
    config = settled(config, settings)
    return _become_driver(process_id, connection, session, config, job_id, job, log_to_driver, None)


def settled(own: Config, session: dict[str, object]) -> Config:
    """The settings of a program that joins: those of its session, but for what the program itself set otherwise."""
    default = Config()
    chosen = {name: value for name, value in as_dict(own).items() if value != getattr(default, name)}
    return Config(**{**session, **chosen})


def _introduce(
    connection: Connection,
    process_id: bytes,
    job_id: bytes | None,
    job: JobSpec,
    log_to_driver: bool,
    *,
    joins: bool,
) -> None:
    connection.send(
        Hello(
            process_id=process_id,
            pid=os.getpid(),
            job_id=job_id,
            job=job,
            # A program with Python inside may have no arguments.
            entrypoint=" ".join(map(str, getattr(sys, "argv", ()))),
            log_to_driver=log_to_driver,
            versions=versions.own() if joins else None,
            preload=isolation.preloadable("numpy"),
            announces=bool(isolation.shareable()),
            loaded=isolation.loaded_packages(),
            script=isolation.main_needs_pickler(b".remote"),
        )
    )


def _announce(owner: Owner) -> None:
    """If this driver has loaded a heavy package, have its first function tell what workers will import."""
    packages = isolation.shareable()
    if packages:
        from sundog.engines.needs import Announcement

        owner.tasks.announce = Announcement(packages, lambda found: owner.control.send(Imported(found))).make


def _become_driver(
    process_id: bytes,
    connection: Connection,
    session: SessionFacts,
    config: Config,
    job_id: bytes,
    job: JobSpec,
    log_to_driver: bool,
    started_node: int | None,
) -> LocalEngine:
    facts = context.facts
    facts.mode, facts.process_id, facts.node_id, facts.job_id = (
        "driver",
        process_id,
        session["node_id"],
        job_id,
    )
    facts.session, facts.namespace = session, job.namespace or f"anonymous-{process_id.hex()}"
    facts.runtime_env = {}
    facts.detached_by_default = job.detached
    owner = assemble.assemble(session, config, "driver")
    assemble.begin(owner, process_id, connection)
    _announce(owner)
    engine = LocalEngine(owner, is_driver=True, started_node=started_node)
    engine.take_over_driver(log_to_driver, prefixed=job.logging is None)
    try:
        owner.reactor.start()
    except RuntimeError as error:
        engine.shutdown()
        raise obstacles.explained(error) from None
    for hook in list(engines.after_begin):
        hook(engine)
    return engine


def load_config(system_config: dict[str, object] | None) -> Config:
    """The settings for a new session."""
    return config_module.load(system_config)


def _leave(number: int, _frame: object) -> None:
    """SIGTERM in a driver: leave like `sys.exit()`, so that `finally` and `atexit` run, and the session ends."""
    raise SystemExit(number)
