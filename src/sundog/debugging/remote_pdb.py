"""pdb in a worker, with its prompt in another terminal.

Owns what differs from the usual pdb: where lines come from (`desk.py`), that leaving lets the task go
on, that the frames of sundog itself are not shown, several lines at a prompt and `interact` also on Pythons whose pdb
has neither. Refuses `run` and `restart`: a task is not started by its debugger. Runs in the thread of the task.
"""

from __future__ import annotations

import code
import codeop
import contextlib
import os
import pdb  # noqa: T100
import sys
import traceback
from collections.abc import Callable
from types import CodeType, FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from sundog.debugging.desk import ClientLeft, DebugDesk, PromptInterrupt

if TYPE_CHECKING:
    from typing import IO

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_WORKER = f"{_PACKAGE}worker{os.sep}"
# Stepping skips these modules: they run the task, and are not being debugged.
_SKIPPED = ("sundog", "sundog.*", "asyncio", "asyncio.*", "selectors")

# Makes a desk for a stop: (path, line, function, why).
OpenDesk = Callable[[str, int, str, str], DebugDesk]
# Has debugpy stop a frame: (frame, why, the exception that it ended with or None).
ToEditor = Callable[[FrameType, str, BaseException | None], None]


class RemotePdb(pdb.Pdb):
    """A pdb at a desk."""

    def __init__(self, open_desk: OpenDesk, is_running: Callable[[], bool]) -> None:
        self._open_desk = open_desk
        self._is_running = is_running
        self._desk: DebugDesk | None = None
        self._why = "breakpoint()"
        self._is_interactive = False
        self._leaves = False
        self.is_handed_over = False
        self._error: BaseException | None = None  # whose traceback is looked at
        self.to_editor: ToEditor = _no_editor
        self.on_end: Callable[[], None] = _nothing  # tracing has ended: an earlier tracer may continue
        front = _Front(self)
        super().__init__(stdin=front, stdout=front, skip=_SKIPPED, nosigint=True)  # type: ignore[arg-type]
        self.use_rawinput = False

    @property
    def desk(self) -> DebugDesk:
        """Where the client sits now."""
        assert self._desk is not None
        return self._desk

    # ------------------------------------------------------------------ where a stop begins
    def stop_at(self, frame: FrameType, why: str) -> object:
        """Stop at a frame now: for a caller in the middle of a line event, where nothing is traced.

        Returns:
            What traces the frame from now on; None if the task just continues.
        """
        self._why = why
        self.reset()
        each: FrameType | None = frame
        while each is not None:
            each.f_trace = self.trace_dispatch
            self.botframe = each
            each = each.f_back
        self.set_step()
        sys.settrace(self.trace_dispatch)
        self.interaction(frame, None)
        if sys.version_info[:2] == (3, 12):
            _keep_locals(frame)
        return self.trace_dispatch if sys.gettrace() is not None else None

    def set_stepinstr(self) -> None:
        """Stop at the next line, as every Python before 3.13 does at `breakpoint()`, not within the line itself."""
        self.set_step()

    def post_mortem(self, error: BaseException, why: str) -> None:
        """Stop where an exception came from; nothing can continue there, so leaving ends the visit."""
        self._why = why
        self._error = error
        self.reset()
        self.interaction(None, error.__traceback__)

    def interaction(self, frame: FrameType | None, tb_or_exc: Any) -> None:
        """The prompt. Every stop comes here."""
        self._leaves = False
        at, line = _place_of(frame, tb_or_exc)
        path, function = at.f_code.co_filename, at.f_code.co_qualname
        if self._desk is None or not self._desk.stop(path, line, function, self._why):
            self._desk = self._open_desk(path, line, function, self._why)
        self._desk.debugger = self
        self._desk.is_at_prompt = True
        try:
            super().interaction(frame, tb_or_exc)
        except ClientLeft:
            return
        except BaseException:  # a cancel: the task ends, and its prompt is closed
            self._end("The task was interrupted.")
            raise
        finally:
            self.desk.is_at_prompt = False
        if self._leaves:
            self._end("The task continues.")
        elif tb_or_exc is not None:
            self._end("The task continues, and fails with its exception.")
        elif sys.gettrace() is None:
            self._desk.go_on(self._is_running)
            self.on_end()

    def _end(self, text: str) -> None:
        self.clear_all_breaks()
        self.set_continue()
        if self._desk is not None:
            self._desk.close(text)
        self.on_end()

    def _cmdloop(self) -> None:
        # Not as in pdb: a KeyboardInterrupt here is the cancel of the task, unless it is a key of the client's
        # terminal.
        self.allow_kbdint = False
        while True:
            try:
                return self.cmdloop()
            except PromptInterrupt:
                self.message("--KeyboardInterrupt--")

    # ------------------------------------------------------------------ frames
    def get_stack(
        self, f: FrameType | None, t: TracebackType | None
    ) -> tuple[list[tuple[FrameType, int]], int]:
        """The user's frames: those of the worker that called them are left out."""
        stack, index = super().get_stack(f, t)
        cut = 0
        for number, (frame, _) in enumerate(stack[: index + 1]):
            if frame.f_code.co_filename.startswith(_WORKER):
                cut = number + 1
        if cut > index:
            return stack, index
        return stack[cut:], index - cut

    def trace_dispatch(self, frame: FrameType, event: str, arg: object) -> Any:
        """What Python calls for a traced frame; once another debugger has the frame, the tracer of that debugger."""
        traced_by = super().trace_dispatch(frame, event, arg)
        if not self.is_handed_over:
            return traced_by
        # The other debugger has not seen the line that the frame runs next. It may be the frame's last line.
        tracer = frame.f_trace
        return tracer(frame, event, arg) if tracer is not None else None

    def dispatch_line(self, frame: FrameType) -> Any:
        """A line of the worker itself: the task has returned, so tracing ends."""
        if frame.f_code.co_filename.startswith(_WORKER):
            self._end("The task has ended.")
            sys.settrace(None)
            return None
        return super().dispatch_line(frame)

    def set_trace(self, frame: FrameType | None = None, **more: object) -> None:
        """`breakpoint()` was met, perhaps after a stop for another reason; steps keep the reason of their stop."""
        self._why = "breakpoint()"
        super().set_trace(frame, **more)

    # ------------------------------------------------------------------ commands that differ
    def do_debug(self, arg: str) -> None:
        """debug code
        Step through the code argument in a debugger of its own, with this prompt to come back to.
        """
        tracer = sys.gettrace()
        super().do_debug(arg)
        if tracer is None:  # after an exception nothing was traced, and pdb would step through itself now
            sys.settrace(None)

    def do_quit(self, arg: str) -> bool:
        """q(uit) | exit
        Leave: the task continues as if it had never stopped.
        """
        self._leaves = True
        self.set_continue()
        return True

    do_q = do_quit
    do_exit = do_quit

    def do_EOF(self, arg: str) -> bool:
        """EOF
        As quit.
        """
        return self.do_quit(arg)

    def do_run(self, arg: str) -> None:
        """run | restart
        Not here: a task is started by its program.
        """
        self.error("A task cannot be started anew from here. See: sundog replay")

    do_restart = do_run

    def do_interact(self, arg: str) -> None:
        """interact
        An interactive interpreter with the names of the current frame; Ctrl-D leaves it.
        """
        frame = self.curframe
        assert frame is not None
        names = {**frame.f_globals, **frame.f_locals}
        self._is_interactive = True
        try:
            with contextlib.redirect_stdout(self.stdout):
                _Console(self.stdin, self.stdout, names).interact("*interactive*", exitmsg="")
        except SystemExit:
            pass  # exit() leaves the interpreter, not the task
        finally:
            self._is_interactive = False

    def default(self, line: str) -> None:
        """A statement; one that is not finished continues in the next lines."""
        text = line[1:] if line[:1] == "!" else line
        try:
            # With the end of its line, as pdb does: `while x: step()` is a whole statement.
            is_whole = codeop.compile_command(f"{text}\n", "<stdin>", "single") is not None
            while not is_whole:
                self.stdout.write("...   ")
                more = self.stdin.readline()
                if not more:
                    return
                text = f"{text}\n{more.rstrip(chr(10))}"
                is_whole = codeop.compile_command(text, "<stdin>", "single") is not None
        except (SyntaxError, ValueError, OverflowError):
            pass  # as pdb says it
        super().default(f"!{text}" if line[:1] == "!" else text)
        if sys.version_info < (3, 13) and self.curframe is not None:
            # Else the next look at `f_locals`, which `where` and others do, would undo an assignment.
            _keep_locals(self.curframe)

    # ------------------------------------------------------------------ what the desk asks
    def complete_line(self, text: str, line: str, begin: int, end: int) -> list[str]:
        """Words that `text`, at this place of the line, may become: commands and names of the frame."""
        if self._is_interactive or line.startswith("!"):
            return self._names(text, line, begin, end)
        found: list[str] = []
        command, _, _ = self.parseline(line)
        if begin > 0 and command:
            complete = getattr(self, f"complete_{command}", None)
            if complete is not None:
                return list(complete(text, line, begin, end) or [])
        elif begin == 0:
            found += [
                each for each in self.completenames(text) if not each.startswith(("EOF", "run", "restart"))
            ]
        return sorted({*found, *self._names(text, line, begin, end)})

    def _names(self, text: str, line: str, begin: int, end: int) -> list[str]:
        return list(self._complete_expression(text, line, begin, end) or [])

    def completenames(self, text: str, *_: object) -> list[str]:
        """Commands that begin so."""
        return [name[3:] for name in self.get_names() if name.startswith(f"do_{text}")]

    def show_place(self) -> None:
        """Print where the task stands: for a client that comes after another one vanished."""
        if self.stack:
            self.print_stack_entry(self.stack[self.curindex])

    def hand_over(self) -> None:
        """Let debugpy stop this frame instead; the client is told its port."""
        from sundog.debugging import vscode

        frame = self.curframe
        assert frame is not None
        try:
            port = vscode.listen()
        except vscode.NoDebugpy as error:
            self.desk.tell("end", text=f"{error}\n")
            return
        desk = self.desk
        self.clear_all_breaks()
        self.set_continue()
        self.is_handed_over = True
        desk.tell("port", port=port)
        desk.close("")
        self.to_editor(frame, self._why, self._error)
        raise ClientLeft


class _Front:
    """The files of a pdb: those of whichever desk it sits at."""

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, owner: RemotePdb) -> None:
        self._owner = owner

    def readline(self, *_: object) -> str:
        return self._owner.desk.readline()

    def write(self, text: str) -> int:
        desk = self._owner._desk
        return desk.write(text) if desk is not None else len(text)

    def flush(self) -> None:
        return

    def isatty(self) -> bool:
        return False

    def writable(self) -> bool:
        return True


class _Console(code.InteractiveConsole):
    """`interact` at the client's terminal."""

    def __init__(self, stdin: IO[str], stdout: IO[str], names: dict[str, object]) -> None:
        super().__init__(names, filename="<stdin>")
        self._stdin, self._stdout = stdin, stdout

    def raw_input(self, prompt: str = "") -> str:
        self._stdout.write(prompt)
        line = self._stdin.readline()
        if not line:
            raise EOFError
        return str(line).rstrip("\n")

    def runcode(self, code: CodeType) -> None:
        try:
            super().runcode(code)
        except PromptInterrupt:  # came when the code had ended
            self.write("\nKeyboardInterrupt\n")

    def showtraceback(self) -> None:
        if isinstance(sys.exc_info()[1], PromptInterrupt):  # its traceback is of the keys, not of the code
            self.write("\nKeyboardInterrupt\n")
        else:
            super().showtraceback()

    def write(self, data: str) -> None:
        self._stdout.write(data)


def _place_of(frame: FrameType | None, tb_or_exc: object) -> tuple[FrameType, int]:
    """The frame and line that a stop is at."""
    if isinstance(tb_or_exc, BaseException):
        tb_or_exc = tb_or_exc.__traceback__
    if isinstance(tb_or_exc, TracebackType):
        last = list(traceback.walk_tb(tb_or_exc))[-1]
        return last[0], last[1]
    assert frame is not None
    return frame, frame.f_lineno


def _keep_locals(frame: FrameType) -> None:
    """Have names that were set at the prompt last: Python keeps them when a trace function returns, if at all."""
    import ctypes

    ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


def _no_editor(_frame: FrameType, _why: str, _error: BaseException | None) -> None:
    return None


def _nothing() -> None:
    return None
