"""The terminal at a paused task's prompt: a line editor with history and completion, and nothing else.

Owns readline in the command's process. pdb itself runs with the task; this end sends lines and shows what comes back.
Ctrl-D and `quit` leave, and the task continues. Ctrl-C at the prompt drops the line; while a typed statement runs, it
interrupts that; while the task runs, it ends the visit. Runs in the terminal's process, main thread.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Self, TypeAlias

from sundog.debugging.channel import DebugChannel

if TYPE_CHECKING:
    from types import ModuleType

_Handler: TypeAlias = Callable[[int, FrameType | None], object] | int | None
_DELIMITERS = " \t\n`@#$%^&*()=+[{]}\\|;:'\",<>?"
_HISTORY_MAX = 1000
PROMPT = "(Pdb)"
# How a visit ended: the task continues or has ended; its process is gone; Ctrl-C during the run; a second Ctrl-C, since
# the first did not end the typed statement.
END, GONE, LEFT, STUCK = "end", "gone", "left", "stuck"


def visit(channel: DebugChannel, history: str) -> str:
    """Sit at the prompt until the task continues or is gone.

    Args:
        history: The file in which typed lines are kept for the next visit.

    Returns:
        How it ended: `END`, `GONE`, `LEFT` or `STUCK`.
    """
    is_running = is_interrupted = False
    with CtrlC() as keys, _line_editor(channel, history):
        while True:
            try:
                with keys.heeded():
                    channel.await_message()
            except KeyboardInterrupt:
                if is_running or is_interrupted or not _send(channel, "interrupt"):
                    print("\nDetached. The task continues.")
                    return LEFT if is_running else STUCK
                is_interrupted = True
                print("\nInterrupted. If that does not help, press Ctrl-C again to leave the prompt.")
                continue
            message = channel.receive()
            if message is None:
                print("The task has ended." if is_running else "The task's process is gone.")
                return END if is_running else GONE
            print(message.get("text", ""), end="", flush=True)
            is_interrupted, is_running = False, message["kind"] == "running"
            if message["kind"] == "end":
                return END
            if message["kind"] == "ask" and not _answer(channel, str(message.get("prompt", "")), keys):
                print("The task's process is gone.")
                return GONE


class CtrlC:
    """Ctrl-C interrupts the two waits of a visit, for a message and for a line. If it is pressed between them, the next
    of them ends at once: it must not end the command in the middle of a step.
    """

    def __init__(self) -> None:
        self._is_heeded = self._is_pressed = False
        self._before: _Handler = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._press)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _press(self, _number: int, _frame: object) -> None:
        if self._is_heeded:
            raise KeyboardInterrupt
        self._is_pressed = True

    @contextlib.contextmanager
    def heeded(self) -> Iterator[None]:
        """A wait that Ctrl-C ends with `KeyboardInterrupt`, also if it was pressed since the wait before."""
        self._is_heeded = True
        try:
            if self._is_pressed:
                self._is_pressed = False
                raise KeyboardInterrupt
            yield
        finally:
            self._is_heeded = False


def _answer(channel: DebugChannel, prompt: str, keys: CtrlC) -> bool:
    while True:
        try:
            with keys.heeded():
                line = input(prompt)
        except EOFError:
            print()
            return _send(channel, "line", text="", end=True)
        except KeyboardInterrupt:
            print()
            if not prompt.startswith(PROMPT):  # in a statement of several lines, or in `interact`
                return _send(channel, "line", text="", dropped=True)
            continue
        return _send(channel, "line", text=line)


def _send(channel: DebugChannel, kind: str, **fields: object) -> bool:
    try:
        channel.send(kind, **fields)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def _line_editor(channel: DebugChannel, history: str) -> Iterator[None]:
    """Arrow keys, history and TAB, as far as this Python has them."""
    try:
        import readline
    except ImportError:
        yield
        return
    found: list[str] = []

    def complete(text: str, state: int) -> str | None:
        if state == 0:
            found[:] = _completions(channel, text, readline)
        return found[state] if state < len(found) else None

    before = readline.get_completer(), readline.get_completer_delims()
    readline.set_completer_delims(_DELIMITERS)
    readline.set_completer(complete)
    readline.parse_and_bind("tab: complete")
    with contextlib.suppress(OSError):
        readline.read_history_file(history)
    try:
        yield
    finally:
        readline.set_history_length(_HISTORY_MAX)
        with contextlib.suppress(OSError):
            os.close(os.open(history, os.O_WRONLY | os.O_CREAT, 0o600))  # the typed commands are private
            readline.write_history_file(history)
        readline.set_completer(before[0])
        readline.set_completer_delims(before[1])


def _completions(channel: DebugChannel, text: str, readline: ModuleType) -> list[str]:
    line = readline.get_line_buffer()
    stripped = len(line) - len(line.lstrip())
    begin, end = readline.get_begidx() - stripped, readline.get_endidx() - stripped
    try:
        channel.send("complete", text=text, line=line.lstrip(), begin=begin, end=end)
        answer = channel.receive()
    except (OSError, KeyboardInterrupt):
        return []
    return [str(each) for each in (answer or {}).get("found", ())]


def is_terminal() -> bool:
    """Whether a user can be asked."""
    return sys.stdin.isatty()
