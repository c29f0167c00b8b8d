"""Signals: the program's handlers run before or after a step of ours, never in the middle of one.

Python calls a handler on the main thread between any two instructions, also of ours. There it may call a verb, which
would find our tables half changed, or raise an exception, which would leave them so. So while a session runs, Python
calls `_arrived` instead of the handlers. It looks at the frames (`moments`) and calls the handler at once if none of
our code is interrupted; otherwise

::

    in a blocking call (wait_in)   `_arrived` ends the call with `Wake`; the verb leaves what it was doing in good
                                   order, calls the handlers (`heed`), and goes on waiting; if what it waited for is
                                   there it ends, as below
    anywhere else                  the verb ends first: a trace function, set for this moment alone, sees it return and
                                   calls the handlers there, as if the verb had raised what they raise
    if somebody else traces        the signal is sent again in a moment, until it comes at a better one

None of this costs anything while no signal comes (docs/decisions/0017).

Owns the handlers that the program has set (`signal.signal` and `signal.getsignal` take and give those), and the signals
that wait. Refuses to know what a handler does. Runs on the main thread of drivers and workers; `send_later` has a short
thread of its own, a raw one, as Python's own wait for locks that the main thread may hold at any step.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable
from importlib import import_module
from threading import get_ident
from types import FrameType
from typing import TYPE_CHECKING, Any

from sundog.owner import fault_dumps, moments

if TYPE_CHECKING:
    from _typeshed import TraceFunction

_raw = import_module("_signal")  # what `signal.signal` calls, whatever name the program imported it under
_set: Callable[[int, object], object] = _raw.signal
_get: Callable[[int], object] = _raw.getsignal
_AGAIN_S = 1e-3
_DEPTH_MAX = 40  # nested handlers, far below Python's recursion limit

main = 0  # the thread that receives signals, once the guard is installed
pending: deque[int] = deque()  # signals whose handlers have not run yet
ended: Callable[[SystemExit], None] | None = None  # called when a handler ends a worker that runs no task
_handlers: dict[int, Callable[..., object]] = {}  # the handlers that the program installed
_lock: Any = None  # the owner's lock
_asleep = False  # the main thread is in a blocking call that may be interrupted at any time
_watched: FrameType | None = None  # the frame whose end the trace function waits for
_deciding = False  # some frame has taken over the decision when the handlers run
_from_trace = 0  # handlers that run in a trace function now: Python traces nothing in the meantime
_depth = 0
_coming = False  # a signal was sent again and has not arrived yet


class Wake(BaseException):
    """Raised in a blocking call to leave it: the handler of a signal has to run."""


# ---------------------------------------------------------------------- the handlers of the program
def install(lock: object) -> None:
    """Call the program's handlers from now on, and those that it will set; on the main thread.

    Args:
        lock: of the owner: no handler runs while this thread holds it.
    """
    global main, _lock
    main, _lock = get_ident(), lock
    vars(_raw).update(signal=_signal, getsignal=_getsignal)
    for number in range(1, signal.NSIG):
        found = _get(number)
        if found is not _arrived and callable(found):
            _handlers[number] = found
            _set(number, _arrived)


def uninstall() -> None:
    """Let Python call the handlers again. No effect in a thread that must not set handlers."""
    global _lock
    _lock = None
    if get_ident() != main:
        return
    vars(_raw).update(signal=_set, getsignal=_get)
    for number in list(_handlers):
        if _get(number) is _arrived:
            _set(number, _handlers[number])


def _signal(number: int, handler: object) -> object:
    """Stands for `_signal.signal`."""
    if number == fault_dumps.SIGNAL:
        fault_dumps.give_up()
    if not callable(handler):
        before = _set(number, handler)
        return _handlers.pop(number, None) if before is _arrived else before
    known = _handlers.get(number)
    _handlers[number] = handler
    try:
        before = _set(number, _arrived)
    except BaseException:
        _handlers.pop(number, None)
        if known is not None:
            _handlers[number] = known
        raise
    return known if before is _arrived else before


def _getsignal(number: int) -> object:
    """Stands for `_signal.getsignal`."""
    found = _get(number)
    return _handlers.get(number) if found is _arrived else found


def _forked() -> None:
    """In a child process: the thread that forked is its main thread, and holds no lock that matters."""
    global main, _lock, _asleep
    if main:
        main, _lock, _asleep = get_ident(), None, False
        pending.clear()
        _disarm()


os.register_at_fork(after_in_child=_forked)


# ---------------------------------------------------------------------- a signal comes
def _arrived(number: int, frame: FrameType | None) -> None:
    """What Python calls for every signal that has a handler."""
    if number not in pending:
        pending.append(number)
    # If another signal interrupts this function or the loop over the handlers, that code checks `pending`
    # before it ends.
    if frame is None or frame.f_code not in _LOOKING:
        _settle(frame)


def _settle(frame: FrameType | None, *, waits: bool = False) -> None:
    """Call the handlers that wait, or have them called.

    Args:
        frame: where the program is.
        waits: the caller has more to do before it returns to a loop that heeds: call none here.
    """
    global _deciding
    if _asleep:
        if frame is None or frame.f_code is wait_in.__code__:
            raise Wake
        # this is the trace function that was called for `_arrived`, which continues and raises the error
        return
    if _deciding:
        return
    _deciding = True
    try:
        target, idle = moments.find(frame)
        locked = _lock is not None and _lock._is_owned()
        if target is not None:
            _arm(target)
        elif locked:
            _again()
    finally:
        _deciding = False
    if target is None and not locked and not waits:
        _disarm()
        _run(frame, idle)


def _run(frame: FrameType | None, idle: bool) -> None:
    """Call the handlers that wait. `idle`: no code of the user's is interrupted, so what they raise is printed."""
    global _depth
    if _depth >= _DEPTH_MAX:
        return  # the running handlers check again when they return
    _depth += 1
    try:
        while pending:
            number = pending.popleft()
            handler = _handlers.get(number)
            if handler is None:
                continue
            try:
                handler(number, frame)
            except SystemExit as error:
                if not idle or ended is None:
                    raise
                ended(error)
            except BaseException:
                if not idle:
                    raise
                with contextlib.suppress(BaseException):
                    sys.excepthook(*sys.exc_info())
    finally:
        _depth -= 1
        if pending:
            _again()  # one of the handlers raised


# ---------------------------------------------------------------------- the end of a verb
def _arm(target: FrameType) -> None:
    """Have the handlers called when a frame returns; if that is a finaliser's, in the code that it interrupted."""
    global _watched
    if _watched is target:
        return
    if _from_trace or sys.gettrace() not in (None, _trace):
        _again()
        return
    _disarm()
    _watched = target
    if moments.is_finaliser(target):
        if target.f_back is None:
            return  # the interpreter is ending
        _watched = target.f_back
        _watched.f_trace_opcodes = True
    _watched.f_trace_lines = False
    _watched.f_trace = _trace
    sys.settrace(_trace)


def _disarm() -> None:
    global _watched
    frame, _watched = _watched, None
    if frame is not None:
        if sys.gettrace() is _trace:
            sys.settrace(None)
        frame.f_trace_opcodes = False
        frame.f_trace_lines = True
        frame.f_trace = None


def _trace(frame: FrameType, event: str, _: object) -> TraceFunction | None:
    """Python's trace function while a frame is watched."""
    global _from_trace, _deciding
    deciding, _deciding = _deciding, True
    try:
        found = _moment(frame, event)
        if found is None:
            return _trace if frame is _watched else None
        if _lock is not None and _lock._is_owned():
            _again()
            return _trace
        _disarm()
    finally:
        _deciding = deciding
    _from_trace += 1
    try:
        _run(*found)
    finally:
        _from_trace -= 1
    return None


def _moment(frame: FrameType, event: str) -> tuple[FrameType | None, bool] | None:
    """Where the program is if handlers may run at this event, and whether none of its code is interrupted."""
    if event == "return" and frame is _watched:
        return frame.f_back, moments.find(frame)[1]
    # If C code is the caller, as in map(), the next verb begins before the caller's own code continues.
    if event == "call" and not moments.is_finaliser(frame):
        target, idle = moments.find(frame.f_back)
        return None if target is not None else (frame.f_back, idle)
    if event == "opcode":
        target, idle = moments.find(frame)
        return None if target is not None else (frame, idle)
    return None


# ---------------------------------------------------------------------- blocking
def wait_in(block: Callable[..., object], *args: object) -> None:
    """On the main thread: block in a call of C code that a signal may end, or not at all if a handler waits."""
    global _asleep
    try:
        # From here on `_arrived` raises. Python checks for signals after each call, also when this call
        # returns.
        _asleep = True
        if not pending:
            block(*args)
    except Wake:
        _asleep = False  # first: Python checks for signals only at calls
        # The verb's result may have arrived as well. Then the verb ignores the interrupt, and its return has
        # to be watched.
        _settle(sys._getframe(), waits=True)
    finally:
        _asleep = False


def due() -> bool:
    """Whether handlers wait for this thread."""
    return bool(pending) and get_ident() == main


def take(number: int) -> bool:
    """Whether a signal waits for this thread; one that would only raise KeyboardInterrupt is done with."""
    if not due() or number not in pending:
        return False
    if _handlers.get(number) is signal.default_int_handler:
        with contextlib.suppress(ValueError):
            pending.remove(number)
    return True


def heed() -> None:
    """Call the handlers that wait, in the middle of a verb that has nothing half done and does not lead."""
    target, idle = moments.find(sys._getframe(1))
    _disarm()
    _run(target.f_back if target is not None else None, idle)


# ---------------------------------------------------------------------- later
def _again() -> None:
    """Have the signals that wait come again."""
    global _coming
    if not _coming:
        _coming = True
        send_later(_AGAIN_S, _come)


def _come() -> None:
    global _coming
    _coming = False
    for number in list(pending):
        if _get(number) is _arrived:
            signal.pthread_kill(main, number)
            break


def send_later(delay_s: float, send: Callable[..., object], *args: object) -> None:
    """Call `send(*args)` after a moment, from a thread of its own; at once if there can be no more threads."""
    try:
        _thread.start_new_thread(_send, (delay_s, send, args))
    except RuntimeError:
        send(*args)


def _send(delay_s: float, send: Callable[..., object], args: tuple[object, ...]) -> None:
    time.sleep(delay_s)
    with contextlib.suppress(OSError):  # the receiver of the message may be gone
        send(*args)


_LOOKING = frozenset({_arrived.__code__, _run.__code__})
