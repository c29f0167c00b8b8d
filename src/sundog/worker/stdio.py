"""Standard output and error of a worker process, written to two log files.

```
 print(), logging ─► LogStream ─► Channel ──┐  one write() per line group, O_APPEND
 C libraries, subprocesses ─► fd 1 / fd 2 ──┴─► worker-….out / .err ─► node/logs.py (reader)
```

Owns: fds 1 and 2, `sys.stdout` and `sys.stderr` of one worker, the marker lines that say which task or
actor printed what, and rotation by size. Refuses: to read the files, to send anything anywhere, to raise
into user code because a log could not be written. Runs in a worker (and in whatever the user forks from
it), on any thread.

The file format, which node/logs.py reads (a record separator, 0x1e, opens each of these; the eight hex
digits are the CRC-32 of the text before them, so text that merely looks alike is left alone):

- `\\x1ename=resize #1a2b3c4d\\n`  what follows was printed by `resize` (percent-encoded)
- `\\x1epart=3 #…\\n`              first line of the third rotated successor
- `\\x1enext=4 #…\\n`              this file is full, part 4 goes on
- `\\x1elit #…;`                  one literal 0x1e which Python code printed

Guarantees: a group of lines is one append, so threads and processes never tear each other's lines; a
partial line is kept per thread until its newline, a flush, 64 KiB, or the end of the task, which ends the
line too: an owner that has a task's result can have all it printed. Assumption: a local file system, where an
O_APPEND write is atomic.
"""

from __future__ import annotations

import errno
import io
import mmap
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NoReturn

from sundog.wire.marks import LITERAL, MARK, mark

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

DEFAULT_MAX_BYTES = 512 * 1024 * 1024
DEFAULT_BACKUPS = 5
# Keeps a marker far shorter than the window in which the reader searches for markers.
NAME_MAX_CHARS = 200
# A longer unfinished line is written out: memory stays bounded, and progress becomes visible.
PARTIAL_MAX_BYTES = 64 * 1024
# For this time fd 1 and 2 are assumed to be still the log file: many prints cost one fstat together. In this
# time a write goes wherever the fd points, as in any process; only markers and escapes need a fresh check.
_CHECK_EVERY_S = 0.001
# A log without any newline is cut anyway once it is this many times over its limit.
_FORCE_ROTATE_FACTOR = 2
_OPEN_AGAIN_S = 1.0
# Whether some line may lack its newline. The end of a task reads this variable, which saves a call.
holding = False
_HEX = frozenset("0123456789abcdef")


def name_mark(name: str) -> bytes:
    """The marker line for `name`, after which (and a NUL) the id of a task may follow.

    Anything that could break the line is percent-encoded, an ampersand too: it stands before the task's id.
    """
    from urllib.parse import quote  # takes 5 ms to import: most workers never print

    shown, _, task = name.rpartition("\0")
    if not shown or not set(task) <= _HEX:
        shown, task = name, ""  # the user's text contains a NUL
    body = quote(shown[:NAME_MAX_CHARS], safe=" ()[]<>=,:.;@/'\"!*+-_", errors="backslashreplace")
    return mark(f"name={body}&{task}" if task else f"name={body}") + b"\n"


class LogChannel:
    """One log file behind one of fds 1 and 2; every method may be called from any thread."""

    def __init__(
        self, path: str, target_fd: int, name_of_current: Callable[[], str], max_bytes: int, backups: int
    ) -> None:
        self.path = path
        self.target_fd = target_fd
        self.part = 0
        self.lost_bytes = 0
        self._name_of_current = name_of_current
        self._max_bytes = max_bytes
        self._backups = max(1, backups)
        self._pid = os.getpid()
        # Re-entrant: a signal handler or __del__ may print while the same thread prints.
        self._lock = threading.RLock()
        self._pending: dict[int, bytes] = {}
        self._begun_by: dict[
            int, str
        ] = {}  # for the partial line of a thread: the task or actor that printed to it last
        # The last marker (its CRC, and the part of the log that contains it), shared with forked children,
        # which append to the same file: each process must see that another one has changed the name.
        self._shared = mmap.mmap(-1, 16)
        self._marker = ("", b"", b"")
        self._size = 0
        self._checked_at = 0.0
        self._torn = False  # the file ends within a line that could not be written completely
        self._open_at: float | None = None  # if there is no file: when to try again to create one
        try:
            fd = self._open(path)
        except OSError:
            self._open_at = time.monotonic() + _OPEN_AGAIN_S
            fd = self._open(os.devnull)
        self._install(fd)

    # ------------------------------------------------------------------ what the streams call

    def write(self, data: bytes, *, through: bool = False) -> None:
        """Append `data`; whole lines are written to the file now, an unfinished line waits for its newline or
        a flush.
        """
        if MARK in data:
            data = data.replace(MARK, LITERAL)
            self._checked_at = 0.0
        ident = threading.get_ident()
        if b"\n" not in data and not through and len(data) < PARTIAL_MAX_BYTES:
            # print() writes each argument separately: text that waits for its newline needs no lock.
            rest = self._pending.pop(ident, b"") + data
            if len(rest) < PARTIAL_MAX_BYTES:
                self._hold(ident, rest)
                return
            data = rest
        with self._lock:
            # Removed first and put back last, each in one step that no signal can interrupt: a handler that
            # prints on this thread in between neither sees nor leaves a partial state.
            data = self._pending.pop(ident, b"") + data
            end = len(data) if through else data.rfind(b"\n") + 1
            if len(data) - end >= PARTIAL_MAX_BYTES:
                end = len(data)
            if end:
                self._append(data[:end])
            if end < len(data):
                self._hold(ident, data[end:])

    def _hold(self, ident: int, rest: bytes) -> None:
        global holding
        holding = True
        # Coroutines share a thread: another coroutine may finish the line.
        self._begun_by[ident] = self._current_name()
        while self._pending.setdefault(ident, rest) is not rest:
            rest = self._pending.pop(ident, b"") + rest

    def flush(self) -> None:
        """Write this thread's partial line, if any."""
        if self._pending:
            with self._lock:
                ident = threading.get_ident()
                held = self._pending.pop(ident, None)
                if held:
                    self._append(held, self._begun_by.pop(ident, None))

    def end_line(self) -> None:
        """Write this thread's partial line and end it, also if the start of it was flushed before. One that a
        carriage return ends is progress, which needs no end; a file of the user's gets nothing of ours."""
        with self._lock:
            ident = threading.get_ident()
            held = self._pending.pop(ident, b"")
            self._checked_at = 0.0  # sundog's newline must not go to a file of the user
            if (held or self._unended == ident) and held[-1:] != b"\r" and self._locate() is not None:
                held += b"\n"
            if held:
                self._append(held)

    @property
    def holding(self) -> bool:
        """Whether a line lacks its end, as far as this process knows."""
        return bool(self._pending) or self._unended != 0

    def flush_all(self) -> None:
        """Write the partial lines of all threads; sundog adds a newline to those of other threads."""
        if not self._pending:
            return
        with self._lock:
            self.flush()
            while self._pending:
                _, held = self._pending.popitem()
                self._append(held + b"\n")

    def restore(self) -> None:
        """Put the log file back on its fd, whatever user code has done to the fd."""
        with self._lock:
            if not self._is_ours(self.target_fd):
                self._install(self._private_fd())

    def after_fork_in_child(self) -> None:
        """Forget what belongs to threads that do not exist here; the parent writes their partial lines."""
        self._lock = threading.RLock()
        self._pending, self._begun_by = {}, {}

    # ------------------------------------------------------------------ writing

    def _append(self, data: bytes, name: str | None = None) -> None:
        self._refresh_marker(name)
        try:
            if self._open_at is not None:
                self._open_late()
            try:
                place = self._locate()
                if place is not None:
                    self._append_to_log(*place, data)
            except OSError as exc:
                if exc.errno != errno.EBADF:
                    raise
                # The fd was closed since the last check. The first write notices it, unless another thread
                # closes it between two parts of a rotation; then lines may be written twice, but none is
                # lost.
                self._checked_at = 0.0
                place = self._locate()
                if place is not None:
                    self._append_to_log(*place, data)
        except OSError as exc:
            # A full disk must not fail the user's task: the lost bytes are counted, and reported when there
            # is room.
            self.lost_bytes += len(data)
            self._torn = self._torn or isinstance(exc, _TornWrite)
            self._checked_at = 0.0
            return
        if place is None:
            # The user has put another file on fd 1 or 2 (dup2): plain output goes there, and the user sees
            # its errors.
            _write_all(self.target_fd, data.replace(LITERAL, MARK))

    def _open_late(self) -> None:
        """Make the log file that could not be made when the worker started.

        Raises:
            OSError: it still cannot be made.
        """
        now = time.monotonic()
        if self._open_at is not None and now < self._open_at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._open_at = now + _OPEN_AGAIN_S
        fd, nothing = self._open(self.path), self._private
        self._open_at = None
        self._install(fd)
        os.close(nothing)

    def _append_to_log(self, fd: int, size: int, data: bytes) -> None:
        if self.lost_bytes:
            note = f"[sundog] {self.lost_bytes} bytes of output could not be written here (disk full?)\n"
            _write_all(fd, (b"\n" if self._torn else b"") + note.encode())
            self.lost_bytes, self._torn = 0, False
        while data:
            room = self._max_bytes - size
            cut = len(data)
            if cut > room:
                if room <= 0 and self._may_rotate(size):
                    self._rotate()
                    fd, size = self._private, self._size
                    continue
                # Cut after the last line that fits. If no line fits, one whole line exceeds the limit.
                cut = data.rfind(b"\n", 0, max(0, room)) + 1 or data.find(b"\n") + 1 or len(data)
            # Slicing a whole bytes object copies nothing, so the usual case is one write.
            size = self._size = size + self._write_marked(fd, data[:cut])
            data = data[cut:]

    def _refresh_marker(self, name: str | None = None) -> None:
        """Have the marker of the writing task ready: of `name`, else of what runs on this thread."""
        if name is None:
            name = self._current_name()
        if name != self._marker[0] or not self._marker[1]:
            line = name_mark(name)
            self._marker = (name, line, line[-9:-1] + self.part.to_bytes(8, "little"))
        if self._shared[:16] != self._marker[2]:
            self._checked_at = 0.0  # a marker must not go to a file of the user

    def _write_marked(self, fd: int, piece: bytes) -> int:
        _, line, key = self._marker
        if self._shared[:16] != key:
            # The reader accepts a marker in the middle of a line, so no newline is needed before it.
            piece = line + piece
        _write_all(fd, piece)
        self._shared[:16] = key  # set now: a failed write has left no marker
        global holding
        last = piece[-1:]
        self._midline = last != b"\n"
        # The thread whose line is unfinished; a line that ends with a carriage return may stay unfinished.
        self._unended = threading.get_ident() if self._midline and last != b"\r" else 0
        holding |= self._unended != 0
        return len(piece)

    def _current_name(self) -> str:
        try:
            return self._name_of_current()
        except Exception:  # printing must work even while the worker's own state is being destroyed
            return ""

    # ------------------------------------------------------------------ files and rotation

    def _open(self, path: str) -> int:
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if fd > 2:
            return fd
        # fd 0 to 2 were closed at the start: a log file must not get a standard number by accident.
        high = _duplicate_high(fd)
        os.close(fd)
        return high

    def _install(self, fd: int) -> None:
        """Make `fd` the private handle and copy it onto fd 1 or 2 (inherited by subprocesses)."""
        stat = os.fstat(fd)
        self._identity = (stat.st_dev, stat.st_ino)
        self._private = fd
        self._midline, self._unended = False, 0
        self._rotating = False
        self._checked_at = 0.0
        self._size = stat.st_size
        os.dup2(fd, self.target_fd, inheritable=True)

    def _is_ours(self, fd: int) -> bool:
        try:
            stat = os.fstat(fd)
        except OSError:
            return False
        return (stat.st_dev, stat.st_ino) == self._identity

    def _private_fd(self) -> int:
        """The private handle, opened anew if the user closed it (its number may be another file by now)."""
        if not self._is_ours(self._private):
            self._private = self._open(self.path)
            stat = os.fstat(self._private)
            if (stat.st_dev, stat.st_ino) != self._identity:
                # The file was removed or replaced: this is a new file, so it needs a name marker.
                self._identity = (stat.st_dev, stat.st_ino)
                self._forget_marker()
        return self._private

    def _locate(self) -> tuple[int, int] | None:
        """Where log bytes go and how many are there, or None when the user pointed fd 1/2 elsewhere."""
        now = time.monotonic()
        if now - self._checked_at < _CHECK_EVERY_S:
            return self.target_fd, self._size
        try:
            stat = os.fstat(self.target_fd)
        except OSError:
            # Closed: occupy the number again, or the user's next open() would receive all printed text.
            self._install(self._private_fd())
            stat = os.fstat(self.target_fd)
        if stat.st_ino != self._identity[1] or stat.st_dev != self._identity[0]:
            self._checked_at = 0.0
            return None
        self._checked_at, self._size = now, stat.st_size
        return self.target_fd, stat.st_size

    def _forget_marker(self) -> None:
        """The file has none yet, or its part number changed."""
        self._marker = ("", b"", b"")
        self._shared[:16] = bytes(16)
        self._refresh_marker()

    def _may_rotate(self, size: int) -> bool:
        # Only the worker itself rotates: after a rotation by a forked child the others would keep the old
        # file.
        if self._rotating or os.getpid() != self._pid:
            return False
        return not self._midline or size > _FORCE_ROTATE_FACTOR * self._max_bytes

    def _rotate(self) -> None:
        """Start the next part. The order of the steps lets a reader find the part after a crash between any
        two steps.
        """
        part, old = self.part + 1, self._private_fd()
        fresh = self._open(self.path + ".new")
        self._rotating = True  # a signal handler that prints now must not start a second rotation
        try:
            _write_all(fresh, mark(f"part={part}") + b"\n")
            _write_all(old, mark(f"next={part}") + b"\n")
            for index in range(self._backups - 1, 0, -1):
                _rename(f"{self.path}.{index}", f"{self.path}.{index + 1}")
            _rename(self.path, self.path + ".1")
            os.rename(self.path + ".new", self.path)
        except OSError:
            os.close(fresh)
            self._rotating = False
            raise
        self.part = part
        self._install(fresh)
        os.close(old)
        self._forget_marker()


def _write_all(fd: int, data: bytes) -> None:
    written = os.write(fd, data)
    if written != len(data):
        view = memoryview(data)[written:]
        try:
            while view:
                view = view[os.write(fd, view) :]
        except OSError as error:
            raise _TornWrite(error.errno, error.strerror) from None


class _TornWrite(OSError):
    """A part of the bytes was written."""


def _rename(old: str, new: str) -> None:
    try:
        os.rename(old, new)
    except FileNotFoundError:
        return  # the chain is shorter than its limit, or files were removed


def _duplicate_high(fd: int) -> int:
    import fcntl

    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10)


class LogBuffer(io.BufferedIOBase):
    """`sys.stdout.buffer`: bytes into the same channel, in order with the text."""

    def __init__(self, channel: LogChannel) -> None:
        self._channel = channel

    def write(self, data: ReadableBuffer, /) -> int:
        raw = bytes(data)
        self._channel.write(raw)
        return len(raw)

    def flush(self) -> None:
        self._channel.flush()

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._channel.target_fd

    def isatty(self) -> bool:
        return False

    def close(self) -> None:
        """Flush only: the stream belongs to the process, not to the task that printed last."""
        self.flush()


class LogStream(io.TextIOBase):
    """`sys.stdout` / `sys.stderr` of a worker: line-buffered, UTF-8, never closed, never failing."""

    mode = "w"
    line_buffering = True
    write_through = False

    def __init__(self, channel: LogChannel, name: str) -> None:
        self._channel = channel
        self._buffer = LogBuffer(channel)
        self.name = name

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    @property
    def errors(self) -> str:  # type: ignore[override]
        return "backslashreplace"

    @property
    def newlines(self) -> None:  # type: ignore[override]
        return None

    @property
    def buffer(self) -> LogBuffer:
        return self._buffer

    def write(self, text: str, /) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self._channel.write(text.encode("utf-8", "backslashreplace"), through=self.write_through)
        return len(text)

    def writelines(self, lines: Iterable[str], /) -> None:  # type: ignore[override]
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        self._channel.flush()

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._channel.target_fd

    def isatty(self) -> bool:
        return False

    def reconfigure(self, *, write_through: bool | None = None, **_ignored: object) -> None:
        """Accepts what TextIOWrapper accepts; only `write_through` has an effect here."""
        if write_through is not None:
            self.write_through = write_through

    def detach(self) -> NoReturn:
        raise io.UnsupportedOperation("detach: a worker's standard streams stay attached to their log file")

    def close(self) -> None:
        """Flush only: a task that closes sys.stdout must not silence the tasks after it."""
        self.flush()


_channels: tuple[LogChannel, ...] = ()
_streams: tuple[LogStream, ...] = ()


def redirect(
    out_path: str,
    err_path: str,
    name_of_current: Callable[[], str],
    *,
    max_bytes: int = DEFAULT_MAX_BYTES,
    backups: int = DEFAULT_BACKUPS,
) -> None:
    """Send everything this process prints to `out_path` and `err_path`.

    Call once, in a freshly forked worker, before user code runs. `name_of_current` is asked at each group
    of lines which task or actor is running on the calling thread.
    A file that cannot be made now (the disk is full) is made later; what is printed until then is counted.
    """
    global _channels, _streams
    out = LogChannel(out_path, 1, name_of_current, max_bytes, backups)
    err = LogChannel(err_path, 2, name_of_current, max_bytes, backups)
    if not _channels:
        os.register_at_fork(after_in_child=_after_fork_in_child)
    _channels = (out, err)
    _streams = (LogStream(out, "<stdout>"), LogStream(err, "<stderr>"))
    sys.stdout, sys.stderr = _streams
    sys.__stdout__, sys.__stderr__ = _streams  # type: ignore[assignment,misc]


def flush() -> None:
    """Write this thread's partial lines: for the end of one of several coroutines that share a thread."""
    for channel in _channels:
        channel.flush()


def end_lines() -> None:
    """Write and end this thread's partial lines: for the end of a task, before its result is sent."""
    global holding
    holding = False  # first: another thread may begin a line now
    for channel in _channels:
        channel.end_line()
    if any(channel.holding for channel in _channels):
        holding = True


def flush_all() -> None:
    """Write the partial lines of every thread: for the end of the process, or of its only task."""
    for stream in (sys.stdout, sys.stderr):
        # A replacement by the user (colorama, redirect_stdout) may buffer text too.
        if stream is not None and not isinstance(stream, LogStream):
            try:
                stream.flush()
            except Exception:  # the replacement is the user's; sundog's own streams are flushed below
                continue
    for channel in _channels:
        channel.flush_all()


def restore() -> None:
    """Undo what a task did to fds 1 and 2 and to `sys.stdout`/`sys.stderr` before a stranger's task runs."""
    for channel in _channels:
        channel.restore()
    if _streams:
        sys.stdout, sys.stderr = _streams


def _after_fork_in_child() -> None:
    for channel in _channels:
        channel.after_fork_in_child()
