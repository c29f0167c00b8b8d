"""Breakpoints in a worker: `breakpoint()`, an exception with post_mortem, and what `sundog break` has set.

Owns `sys.breakpointhook` of a worker, unless the program chose another by PYTHONBREAKPOINT or a debugger is attached,
and the way from a stop to the terminal that attaches to it::

    breakpoint() ─► RemotePdb ─► Desk ── socket ── `sundog debug`
                       └─("paused", row)──► node ──► the driver says where; no bound on time ends meanwhile

The task keeps its CPU while it stands: otherwise a breakpoint in a function that is called a thousand times would start
a thousand workers. Tasks that wait behind it here go back to their owners. Runs in a worker, on any thread; what does
the work is imported at the first stop.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

from sundog import notices
from sundog.config import live_environ
from sundog.ids import random_id
from sundog.owner import context
from sundog.wire.control import Paused, Resumed, SetCaptures, SetTriggers
from sundog.wire.pauses import Pause

if TYPE_CHECKING:
    from sundog.debugging.desk import DebugDesk
    from sundog.debugging.remote_pdb import RemotePdb
    from sundog.debugging.triggers import TriggerWatch
    from sundog.owner.core import Owner
    from sundog.worker.actor_life import ActorLife

_LOOK_S = 0.1


class Breakpoints:
    """The stops of one worker."""

    def __init__(self, owner: Owner, life: ActorLife) -> None:
        self.owner = owner
        self._life = life
        self._desks: dict[bytes, DebugDesk] = {}  # task -> the socket of its debugger
        self._in_editor: set[bytes] = set()  # tasks that an attached editor has stopped
        self._is_watching_editor = False
        self._watch: TriggerWatch | None = None

    def install(self) -> None:
        """Have `breakpoint()` stop the task."""
        if "PYTHONBREAKPOINT" not in live_environ:
            sys.breakpointhook = self._hook

    # ------------------------------------------------------------------ stops
    def _hook(self, *args: object, **kwargs: object) -> None:
        self.stop(sys._getframe(1), *args, **kwargs)

    def stop(self, frame: FrameType, *args: object, **kwargs: object) -> None:
        """Stop at the line after the one that this frame is at."""
        tracer = sys.gettrace()
        own = _pdb_of(tracer)
        if own is not None:
            own.set_trace(frame)
        elif tracer is not None and not self._is_ours(tracer) and not _is_of_editor(tracer):
            sys.__breakpointhook__(*args, **kwargs)  # noqa: T100 (another debugger is here already)
        elif self.owner.config.debugger == "debugpy" or _is_editor_attached():
            self.stop_in_editor(frame, "breakpoint()")
        else:
            self._pdb().set_trace(frame)

    def post_mortem(self, error: BaseException) -> None:
        """Stop at the place that raised an exception, before the task fails with it."""
        trace = error.__traceback__
        if trace is None or trace.tb_next is None:
            return  # raised before the user's code began
        why = f"{type(error).__name__}: {error}".partition("\n")[0][:200]
        if self.owner.config.debugger == "debugpy":
            self.error_in_editor(error, why)
        else:
            self._pdb().post_mortem(error, why)

    def _pdb(self) -> RemotePdb:
        from sundog.debugging.remote_pdb import RemotePdb

        running = context.current()
        task_id = running.task_id if running is not None else b""
        made = RemotePdb(lambda *place: self._desk(task_id, *place), self._is_running(task_id))
        made.on_end = self._arm_here
        made.to_editor = self._hand_to_editor
        return made

    def _is_running(self, task_id: bytes) -> Callable[[], bool]:
        serving = self._life.serving
        return lambda: serving.current == task_id or task_id in serving.running_calls()

    def _desk(self, task_id: bytes, path: str, line: int, function: str, why: str) -> DebugDesk:
        """The socket for this task's debugger: the one of its last stop, if its client is still connected."""
        from sundog.debugging.desk import DebugDesk

        found = self._desks.get(task_id)
        if found is not None and found.stop(path, line, function, why):
            return found
        made = self._desks[task_id] = DebugDesk(
            str(self.owner.control.session["path"]),
            self._pause(path, line, function, why),
            self._announce,
            self._withdraw,
        )
        made.interrupt = self._interrupt_prompt
        return made

    def _interrupt_prompt(self, ident: int, is_on: Callable[[], bool]) -> None:
        """Ctrl-C at the terminal that sits at a prompt: give up what was typed there, in this thread."""
        from sundog.debugging.desk import PromptInterrupt

        if ident != self._life.serving.main_thread:
            import ctypes

            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(ident), ctypes.py_object(PromptInterrupt)
            )
            return

        def arrived(_frame: FrameType | None) -> None:
            if is_on():
                raise PromptInterrupt

        self._call_in_main(arrived)  # also ends a sleep or another call of the system

    def _call_in_main(self, call: Callable[[FrameType | None], None]) -> None:
        """Have the main thread call something in its handler of SIGINT, wherever it is, with its frame."""
        executor = self._life.executor

        def arrived(frame: FrameType | None) -> None:
            executor.on_signal = None
            call(frame)

        executor.on_signal = arrived
        signal.pthread_kill(self._life.serving.main_thread, signal.SIGINT)

    def _pause(self, path: str, line: int, function: str, why: str) -> Pause:
        running = context.current()
        return Pause(
            random_id(6).hex(),
            running.task_id.hex() if running is not None else "",
            _full_name(running.name) if running is not None else threading.current_thread().name,
            running.attempt if running is not None else 0,
            path,
            line,
            function,
            why,
            time.time(),
            os.getpid(),
            self.owner.me.hex(),
        )

    def _announce(self, pause: Pause) -> None:
        self._life.serving.before_pause()
        self.owner.control.send(Paused(pause))

    def _withdraw(self, pause_id: str) -> None:
        self.owner.control.send(Resumed(pause_id))
        for task_id, desk in list(self._desks.items()):
            if not desk.is_open:
                del self._desks[task_id]
        self._life.serving.after_pause()

    # ------------------------------------------------------------------ editors
    def _hand_to_editor(self, frame: FrameType, why: str, error: BaseException | None) -> None:
        """An editor takes the place of pdb."""
        if error is not None:
            self.error_in_editor(error, why, frame)
        else:
            self.stop_in_editor(frame, why, now=True)

    def error_in_editor(self, error: BaseException, why: str, frame: FrameType | None = None) -> None:
        """Have an editor that connects show an exception, in its innermost frame unless another is given."""
        import traceback

        from sundog.debugging import vscode

        try:
            port = vscode.listen()
        except vscode.NoDebugpy as missing:
            notices.warn(f"{missing} The task is paused for pdb instead.")
            return self._pdb().post_mortem(error, why)
        at, line = list(traceback.walk_tb(error.__traceback__))[-1]
        code = at.f_code
        pause = self._pause(code.co_filename, line, code.co_qualname, why)._replace(port=port)
        is_over = threading.Event()
        try:
            self._announce(pause)
            self._await_editor()
            # The editor may go before debugpy has stopped the task for it.
            _look(lambda: not is_over.is_set(), vscode.let_go)
            vscode.stop_at_error(error, frame or at)
        finally:
            is_over.set()
            self._withdraw(pause.id)

    def stop_in_editor(self, frame: FrameType, why: str, *, now: bool = False) -> None:
        """Stop at the next line of this frame, for an editor that connects; `now`: at the line where pdb stands."""
        from sundog.debugging import vscode

        try:
            port = vscode.listen()
        except vscode.NoDebugpy as error:
            notices.warn(f"{error} The task is paused for pdb instead.")
            return self._pdb().set_trace(frame)
        task_id = context.current_id() or b""
        if task_id in self._in_editor and vscode.is_attached():
            return vscode.stop_at(frame, now=now)  # it counts as paused since its first stop
        code = frame.f_code
        pause = self._pause(code.co_filename, frame.f_lineno, code.co_qualname, why)._replace(port=port)
        announced = [pause.id]

        def leave() -> None:
            self._in_editor.discard(task_id)
            while announced:
                self._withdraw(announced.pop())

        is_running = self._is_running(task_id)
        try:
            self._announce(pause)
            self._await_editor()
            # As long as an editor is attached, the task counts as paused.
            self._in_editor.add(task_id)
            _look(lambda: vscode.is_attached() and is_running(), then=leave)
        except BaseException:  # a cancel
            leave()
            raise
        vscode.stop_at(frame, now=now)

    def _await_editor(self) -> None:
        """Wait for an editor, and have the program run as before when it has gone."""
        from sundog.debugging import vscode

        vscode.wait_for_editor()
        if not self._is_watching_editor:
            self._is_watching_editor = True
            _look(vscode.is_attached, then=self._editor_left)

    def _editor_left(self) -> None:
        """Trace no thread for an editor any more; other threads than the main one follow with their next task."""
        self._is_watching_editor = False
        if sys.version_info >= (3, 12):
            return
        if _is_of_editor(threading.gettrace()):
            watch = self._watch
            threading.settrace(watch.trace if watch is not None and watch.is_set else None)
        self._life.executor.inspection.arm(self._arm_here)
        self._call_in_main(self._arm_thread)

    # ------------------------------------------------------------------ breakpoints from outside
    def set_captures(self, message: SetCaptures) -> None:
        """Keep capsules of all runs of some functions."""
        self._life.executor.inspection.capture(message.names)

    def set_triggers(self, message: SetTriggers) -> None:
        """Breakpoints that were set from outside, all of them (by the reader thread)."""
        if self._watch is None:
            from sundog.debugging.triggers import TriggerWatch

            self._watch = TriggerWatch(self._met)
        self._watch.set(message.triggers)
        needs_arming = message.triggers or "debugpy" in sys.modules
        self._life.executor.inspection.arm(
            self._arm_here if needs_arming and sys.version_info < (3, 12) else None
        )
        self._call_in_main(self._arm_thread)

    def _arm_thread(self, frame: FrameType | None) -> None:
        """Trace this thread for what needs it now."""
        if _is_of_editor(sys.gettrace()):
            from sundog.debugging import vscode

            vscode.release_thread()
        if self._watch is not None:
            self._watch.arm_thread(frame)

    def _arm_here(self) -> None:
        self._arm_thread(None)

    def _met(self, frame: FrameType, why: str) -> object:
        return self._pdb().stop_at(frame, why)

    def _is_ours(self, tracer: object) -> bool:
        return self._watch is not None and tracer == self._watch.trace


def _look(
    is_on: Callable[[], bool],
    each: Callable[[], None] | None = None,
    *,
    then: Callable[[], None] | None = None,
) -> None:
    """Have a thread look ten times a second whether something goes on, and do something when it has ended."""

    def look() -> None:
        while is_on():
            if each is not None:
                each()
            time.sleep(_LOOK_S)
        if then is not None:
            then()

    threading.Thread(target=look, daemon=True, name="sundog-debug").start()


def _is_of_editor(tracer: object) -> bool:
    """Whether debugpy traces this thread; it goes on with that when its editor has gone."""
    if "debugpy" not in sys.modules:
        return False
    from sundog.debugging import vscode

    return vscode.is_tracer(tracer)


def _is_editor_attached() -> bool:
    if "debugpy" not in sys.modules:
        return False
    from sundog.debugging import vscode

    return vscode.is_attached()


def _pdb_of(tracer: object) -> RemotePdb | None:
    """The instance of sundog's pdb that traces this thread."""
    if tracer is None or "sundog.debugging.remote_pdb" not in sys.modules:
        return None
    from sundog.debugging.remote_pdb import RemotePdb

    owner = getattr(tracer, "__self__", None)
    return owner if isinstance(owner, RemotePdb) else None


def _full_name(name: str) -> str:
    """The name of what runs: of an actor's call with its class, for other classes may have a method of that name."""
    made_by = context.facts.actor_class
    return f"{made_by}.{name}" if made_by and "." not in name else name
