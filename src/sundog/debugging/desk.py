"""One paused task and the client at its prompt: the files that pdb reads from and writes to.

Owns the pause from its announcement to its end: the socket, the client, what was printed and not yet shown. `readline`
is what pdb blocks in: it shows what was printed, asks the client for a line, and meanwhile completes words. While
no client is attached it waits for the next client, which is shown where the task stands. Refuses to give up: a client
that vanishes leaves the task where it is. Runs in the thread of the task, in a worker.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Protocol

from sundog.debugging import channel
from sundog.wire.pauses import Pause

_LOOK_S = 0.05


class Debugger(Protocol):
    """What the desk asks of the pdb that sits at it."""

    def complete_line(self, text: str, line: str, begin: int, end: int) -> list[str]:
        """Words that `text` may become."""

    def show_place(self) -> None:
        """Print where the task stands."""

    def hand_over(self) -> None:
        """Let debugpy take over; raises `Left` if it does."""


class PromptInterrupt(KeyboardInterrupt):
    """Ctrl-C at the client's terminal: what was typed is given up, the task stays where it is."""

    # What pdb shows of it, as it shows the keyboard's own.
    __module__, __qualname__ = "builtins", "KeyboardInterrupt"


PromptInterrupt.__name__ = "KeyboardInterrupt"


class ClientLeft(Exception):
    """The client has handed the task over to another debugger: end the prompt."""


class DebugDesk:
    """A paused task; `announce` and `withdraw` tell the node."""

    def __init__(
        self,
        session_path: str,
        pause: Pause,
        announce: Callable[[Pause], None],
        withdraw: Callable[[str], None],
    ) -> None:
        self.session_path = session_path
        self.pause = pause
        self.debugger: Debugger | None = None
        self.is_open = True
        self._announce, self._withdraw = announce, withdraw
        self._listener = channel.listen(session_path, pause.id)
        self._client: channel.DebugChannel | None = None
        self._unshown: list[str] = []
        self._lock = threading.Lock()
        self.interrupt: Callable[[int, Callable[[], bool]], None] | None = None  # raises in a thread
        self.is_at_prompt = False  # pdb works on what is typed; the task itself stands
        self._line_number = 0  # of what is worked on now; changes when the next line is waited for
        self._reading = threading.Lock()  # held by the thread that reads the client's socket
        self._is_running = False  # the task runs between two stops, and a thread watches for its end
        announce(pause)

    # ------------------------------------------------------------------ what pdb writes
    def write(self, text: str) -> int:
        """Keep it for the client."""
        self._unshown.append(str(text))
        return len(text)

    # ------------------------------------------------------------------ what pdb reads
    def readline(self) -> str:
        """One line of the client's, "" for the end of its input; blocks as long as it takes."""
        with self._reading:
            self._line_number += 1
        while True:
            is_new = self._attach()
            text, prompt = self._take()
            if is_new and not text and self.debugger is not None:
                self.debugger.show_place()
                text, _ = self._take()
            try:
                line = self._answer(text, prompt)
            except OSError:
                line = None
            if line is not None:
                return line
            self._detach()
            self._unshown.insert(0, prompt)

    def _answer(self, text: str, prompt: str) -> str | None:
        """Ask the client for a line; None if it vanishes."""
        assert self._client is not None
        self._client.send("ask", text=text, prompt=prompt)
        while (message := self._client.receive()) is not None:
            kind = message.get("kind")
            if kind == "line" and message.get("dropped"):
                raise PromptInterrupt
            if kind == "line":
                self._heed()
                return "" if message.get("end") else str(message.get("text", "")) + "\n"
            if kind == "complete" and self.debugger is not None:
                self._client.send("completions", found=self._complete(message))
            elif kind == "debugpy" and self.debugger is not None:
                self.debugger.hand_over()
        return None

    def _heed(self) -> None:
        """While the line is worked on, which may be an endless loop, a thread listens for Ctrl-C."""
        if self.interrupt is None or self._client is None:
            return
        number, client, ident, interrupt = (
            self._line_number,
            self._client,
            threading.get_ident(),
            self.interrupt,
        )

        def is_on() -> bool:
            return self._line_number == number and self.is_at_prompt

        def listen() -> None:
            while is_on():
                with self._reading:
                    is_wanted = is_on() and client.interrupted()
                if is_wanted:
                    interrupt(ident, is_on)
                else:
                    time.sleep(_LOOK_S)

        with contextlib.suppress(RuntimeError):  # no thread can be started: Ctrl-C leaves
            threading.Thread(target=listen, daemon=True, name="sundog-debug").start()

    def _complete(self, message: channel.Message) -> list[str]:
        assert self.debugger is not None
        try:
            return self.debugger.complete_line(
                str(message["text"]), str(message["line"]), int(message["begin"]), int(message["end"])
            )
        except Exception:  # for example an error in a property of the user's class
            return []

    def _take(self) -> tuple[str, str]:
        """What was written, and its last line, which pdb means as a prompt."""
        text = "".join(self._unshown)
        self._unshown.clear()
        shown, newline, prompt = text.rpartition("\n")
        return shown + newline, prompt

    # ------------------------------------------------------------------ clients
    def _attach(self) -> bool:
        """Make sure that a client is attached; returns whether it is a new one."""
        if self._client is not None:
            return False
        self._client, pid = channel.accept(self._listener)
        self.pause = self.pause._replace(attached=pid)
        self._announce(self.pause)
        return True

    def _detach(self) -> None:
        if self._client is not None:
            with self._reading:  # no thread may read a socket that is closed
                self._line_number += 1
                self._client.close()
            self._client = None
            self.pause = self.pause._replace(attached=0)
            if self.is_open:
                self._announce(self.pause)

    def tell(self, kind: str, **fields: object) -> None:
        """Send the client something, if there is one."""
        with contextlib.suppress(OSError):
            if self._client is not None:
                self._client.send(kind, **fields)

    # ------------------------------------------------------------------ stops
    def stop(self, path: str, line: int, function: str, why: str) -> bool:
        """The task has stopped again; False if this desk is closed meanwhile, and another one is needed."""
        with self._lock:
            if not self.is_open:
                return False
            self._is_running = False
        self.pause = self.pause._replace(path=path, line=line, function=function, why=why)
        self._announce(self.pause)
        return True

    def go_on(self, is_running: Callable[[], bool]) -> None:
        """The task continues with its client attached. A thread watches until the task stops again or ends."""
        if self._client is None:
            self.close("")
            return
        self._is_running = True
        self._withdraw(self.pause.id)
        self.tell("running")
        client = self._client

        def look() -> None:
            while self._is_running:
                if not is_running():
                    self._close("The task has ended.", only_running=True)
                elif not client.is_open():
                    self._close("", only_running=True)
                else:
                    time.sleep(_LOOK_S)

        with contextlib.suppress(RuntimeError):  # no thread can be started: the next stop notices the end
            threading.Thread(target=look, daemon=True, name="sundog-debug").start()

    def close(self, text: str) -> None:
        """The visit of the client is over, and the task continues."""
        self._close(text, only_running=False)

    def _close(self, text: str, *, only_running: bool) -> None:
        with self._lock:
            if not self.is_open or (only_running and not self._is_running):
                return
            self.is_open = self._is_running = False
        shown, prompt = self._take()
        self.tell("end", text=shown + prompt + (text + "\n" if text else ""))
        self._detach()
        self._listener.close()
        channel.remove(self.session_path, self.pause.id)
        self._withdraw(self.pause.id)
