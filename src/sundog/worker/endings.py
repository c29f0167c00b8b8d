"""The end of a worker process in good order: what the user's code is given to do before it is gone.

Owns the order of the last steps, `SIGTERM`, and the time that they may take::

    last reply sent ─► __ray_shutdown__() ─► the actor is let go: __del__ ─► atexit handlers ─► "actor_exit", the end

An actor ends like this by `exit_actor()`, `__ray_terminate__`, `sys.exit()`, its last handle, `SIGTERM`; a worker
of tasks when it has run `max_calls` times, was idle, or got `SIGTERM`. `kill()`, a crash and the end of the job leave
nothing time: no step runs. Refuses to decide when a worker ends: `serving.py` and its kin do. Runs in the main thread.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import atexit
import contextlib
import faulthandler
import gc
import os
import signal
import sys
from _thread import get_ident
from typing import TYPE_CHECKING

from sundog.owner import context, interrupts
from sundog.worker.exits import Terminated

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from sundog.worker.actor_life import ActorLife
    from sundog.worker.executor import Executor

_AGAIN_S = 0.002
_SIGTERM = int(signal.SIGTERM)
_REASON = "it received SIGTERM"


def let_go(executor: Executor, limit_s: float) -> None:
    """Run what the user wants to have run at the end; a process that takes longer than `limit_s` ends all the same."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the process is ending
    # With a C thread: it needs no interpreter lock and no cooperation of user code, and it prints where the
    # process hangs.
    with contextlib.suppress(RuntimeError, ValueError, OSError):
        faulthandler.dump_traceback_later(limit_s, exit=True, file=sys.__stderr__ or 2)
    actor, executor.actor = executor.actor, None
    if actor is not None:
        shutdown = getattr(actor, "__ray_shutdown__", None)
        if callable(shutdown):
            _call(shutdown)
        shutdown = None
    # more references than our variable and the argument of this call
    is_held = actor is not None and sys.getrefcount(actor) > 2
    actor = None
    if is_held:
        # Usually held by a reference cycle: an exception and the frame that it passed through. Run the
        # finaliser now.
        gc.collect()
    atexit._run_exitfuncs()
    faulthandler.cancel_dump_traceback_later()


def _call(hook: Callable[[], object]) -> None:
    try:
        hook()
    except BaseException:
        import traceback

        print("__ray_shutdown__() raised this error; the actor ends nevertheless:", file=sys.stderr)
        traceback.print_exc()


class Terminations:
    """What `SIGTERM` does to a worker: the code that runs in the main thread gets a `SystemExit`."""

    def __init__(self, life: ActorLife, executor: Executor) -> None:
        self.life = life
        self.executor = executor

    def install(self) -> None:
        """Take the signal, here and not in the children that user code forks."""
        _signal.signal(_SIGTERM, self.arrived)  # not the module's own: see `zygote.py`
        os.register_at_fork(before=_hold_back, after_in_parent=_let_through, after_in_child=_restore)

    def arrived(self, _signal: int, _frame: object) -> None:
        """Raise in what runs here, or end when nothing does."""
        executor, serving = self.executor, self.life.serving
        if executor.exit_after is None:
            executor.exit_after, executor.exit_code = _REASON, 1
        if executor.concurrent or serving.current is None:
            serving.stopping = executor.exit_after
            serving.wake()
            if executor.concurrent:
                return
        if context.current() is None:
            # The signal arrived in sundog's code, which may be about to begin a task: send it again soon.
            interrupts.send_later(_AGAIN_S, signal.pthread_kill, serving.main_thread, signal.SIGTERM)
            return
        raise Terminated(1)


_masks: dict[int, Collection[int]] = {}  # by thread that forks: the signals that it had blocked before


def _hold_back() -> None:
    """Block the signal from just before a fork on: the child would lose it until it has the usual effect there."""
    _masks[get_ident()] = _signal.pthread_sigmask(signal.SIG_BLOCK, (_SIGTERM,))


def _let_through() -> None:
    _signal.pthread_sigmask(signal.SIG_SETMASK, _masks.pop(get_ident(), ()))


def _restore() -> None:
    # a thread of user code forked this process, so this is not the main thread
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _let_through()
    _masks.clear()
