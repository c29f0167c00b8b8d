"""What workers printed, shown in the driver: `(resize pid=812) line`.

Owns: the prefix, its colour, folding of identical lines from many workers, progress lines that overwrite
each other, and the choice of jobs to show. Refuses: reading files, sockets, threads, clocks of its own (the
time is passed in), and raising because the driver's own stdout is closed or speaks no UTF-8. Runs in the
driver, on whichever thread receives the batches; one thread at a time.

Folding, as Ray does it: a line is printed at once the first time. While the same text comes from *other* workers
within the window it is only counted, and then the last one is printed with `[repeated 5x across cluster]`. Two texts
are the same if they differ only in numbers; one that is nothing but numbers is never folded, and neither is a worker
that repeats itself. The settings `dedup_logs…` switch it off, set the window, and exempt or drop lines by a pattern.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import TextIO, TypeAlias

from sundog.plain import field, plain
from sundog.printable import printable

# worker id, pid, job id, name of the task or actor, is it stderr, lines (see node/logs.py: LogBatch)
BatchTuple: TypeAlias = tuple[bytes, int, bytes, str, bool, Sequence[str]]

FOLD_WINDOW_S = 5.0
# With more different lines than this, the oldest are printed early, so memory stays bounded.
FOLD_MAX_LINES = 10_000
_RESET = "\x1b[0m"
_ERASE_LINE = "\r\x1b[K"
# Readable on dark and on light terminals. White, black and red are left out: people take red for an error.
_COLORS = ("\x1b[36m", "\x1b[35m", "\x1b[32m", "\x1b[33m", "\x1b[34m", "\x1b[96m", "\x1b[95m", "\x1b[92m")
# Two lines are the same if they differ only in what this matches.
_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+")
_HINT = "lines that differ only in numbers are folded; RAY_DEDUP_LOGS=0 shows them all"


def wants_color(stream: TextIO) -> bool:
    """Whether ANSI colours make sense on `stream`: a terminal, or a notebook, which renders them."""
    if type(stream).__module__.split(".")[0] in ("ipykernel", "IPython"):
        return True
    try:
        return stream.isatty()
    except (AttributeError, ValueError):  # sys.stdout was replaced by an object without isatty, or closed
        return False


def prefix(name: str, pid: int, *, ip: str = "", color: bool = False) -> str:
    """The text before each line.

    >>> prefix("resize", 812)
    '(resize pid=812)'
    >>> prefix("", 812, ip="10.0.0.2")
    '(pid=812, ip=10.0.0.2)'
    """
    words = f"{printable(name)} pid={pid}" if name else f"pid={pid}"
    if ip:
        words += f", ip={ip}"
    return f"{_COLORS[pid % len(_COLORS)]}({words}){_RESET}" if color else f"({words})"


def print_batch(
    batch_tuple: BatchTuple,
    *,
    stream_out: TextIO,
    stream_err: TextIO,
    color: bool,
    ip: str = "",
    prefixed: bool = True,
) -> None:
    """Print one batch: stdout lines to `stream_out`, stderr lines to `stream_err`, each with its prefix if wanted.

    Of progress lines (ending in a carriage return) which are overwritten within the batch only the last is
    shown, and on a plain file none but the finished one.
    """
    _, pid, _, name, is_err, lines = batch_tuple
    start = prefix(name, pid, ip=ip, color=color) + " " if prefixed else ""
    _write(stream_err if is_err else stream_out, _format(start, lines, color))


def _format(start: str, lines: Sequence[str], color: bool) -> str:
    pieces: list[str] = []
    last = len(lines) - 1
    for index, line in enumerate(lines):
        if not line.endswith("\r"):
            pieces.append(f"{start}{line}\n")
        elif color and index == last:
            # Written without a newline, so that the next state of the progress bar replaces this one.
            pieces.append(f"{_ERASE_LINE}{start}{line[:-1]}")
    return "".join(pieces)


def _write(stream: TextIO, text: str) -> None:
    """One write per batch, so that the driver's own prints do not fall between; never raises."""
    if not text:
        return
    try:
        try:
            stream.write(text)
        except UnicodeEncodeError:
            encoding = getattr(stream, "encoding", None) or "ascii"
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except (OSError, ValueError, AttributeError):
        # The driver closed its stdout, the terminal is gone, or sys.stdout is None. The lines are in the
        # workers' files, and this thread must go on: it receives results.
        return


@plain()
class _Seen:
    """One text within its window: the process that printed it first, and what has been counted since."""

    since: float
    line: str
    batch: BatchTuple
    ip: str
    workers: set[bytes] = field(default_factory=set)
    folded: int = 0


class DriverLogs:
    """Shows batches of log lines in the driver.

    Args:
        stream_out: where workers' stdout goes; looked up at each print when None, so that a notebook cell or
            `redirect_stdout` in the driver gets the lines of its own time.
        stream_err: the same for stderr.
        color: colour the prefixes; None asks the stream.
        dedup: fold identical lines of different workers.
        job_id: show this job only; None shows all.
        hint: said once, beside the first count: how to switch folding off.
        local_ip: batches from this address carry no `ip=` in their prefix.
        prefixed: put the name and pid of the printer before each line; the lines of a job with a `LoggingConfig` have
            them already.
        window_s: how long repetitions are counted before they are told.
        allow: a pattern; lines in which it is found are never folded.
        skip: a pattern; lines in which it is found are not shown at all, unless `allow` is found too.
        takes: asked for each line first; one that it takes (the state of a progress bar) is not printed as text.
    """

    def __init__(
        self,
        *,
        stream_out: TextIO | None = None,
        stream_err: TextIO | None = None,
        color: bool | None = None,
        dedup: bool = True,
        job_id: bytes | None = None,
        hint: str = _HINT,
        local_ip: str = "",
        takes: Callable[[str], bool] | None = None,
        prefixed: bool = True,
        window_s: float = FOLD_WINDOW_S,
        allow: str = "",
        skip: str = "",
    ) -> None:
        self._window_s = window_s
        self._allow = _pattern("dedup_logs_allow_regex", allow)
        self._skip = _pattern("dedup_logs_skip_regex", skip)
        self._prefixed = prefixed
        self._takes = takes
        self._streams = (stream_out, stream_err)
        self._color = color
        self._dedup = dedup
        self._job_id = job_id
        self._local_ip = local_ip
        self._seen: dict[tuple[bool, str], _Seen] = {}
        self._hint = hint
        # The stream that shows an unfinished progress line: other text must not be appended to that line.
        self._progress_on: TextIO | None = None

    def feed(self, batch: BatchTuple, now: float | None = None, *, ip: str = "") -> None:
        """Print a batch, or count what other workers have said already.

        Args:
            batch: a `LogBatch` or an equal tuple.
            now: seconds on any steady clock; the monotonic one by default.
            ip: the node it comes from.
        """
        worker_id, pid, job_id, name, is_err, lines = batch
        if self._job_id is not None and job_id != self._job_id:
            return
        now = time.monotonic() if now is None else now
        ip = "" if ip == self._local_ip else ip
        if self._takes is not None:
            lines = [line for line in lines if not self._takes(line)]
        if self._dedup:
            lines = [line for line in lines if self._is_news(line, batch, now, ip)]
        self._print((worker_id, pid, job_id, name, is_err, lines), ip)
        self._settle(now)

    def flush(self, now: float | None = None) -> None:
        """Print the counts that are due; all of them when no time is given (shutdown)."""
        self._settle(now)
        if now is None and self._progress_on is not None:
            _write(self._progress_on, "\n")
            self._progress_on = None

    def _is_news(self, line: str, batch: BatchTuple, now: float, ip: str) -> bool:
        if not line or line.endswith("\r"):
            return True
        if self._allow is not None and self._allow.search(line):
            return True
        if self._skip is not None and self._skip.search(line):
            return False
        text = _NUMBERS.sub("", line)
        if not text.strip():
            return True
        worker_id, is_err = batch[0], batch[4]
        seen = self._seen.get((is_err, text))
        if seen is None:
            self._seen[is_err, text] = _Seen(now, line, batch, ip, {worker_id})
            return True
        seen.workers.add(worker_id)
        if len(seen.workers) == 1:
            return True  # one process that prints the same line again is not folded
        seen.folded += 1
        seen.line, seen.batch, seen.ip = line, batch, ip
        return False

    def _settle(self, now: float | None) -> None:
        """Print the counts whose window is over. Windows start in dict order, so the oldest come first."""
        while self._seen:
            key, seen = next(iter(self._seen.items()))
            if now is not None and now - seen.since < self._window_s and len(self._seen) <= FOLD_MAX_LINES:
                return
            del self._seen[key]
            if not seen.folded:
                continue
            line = seen.line
            if seen.folded > 1:
                line += f" [repeated {seen.folded}x across cluster]"
                if self._hint:
                    line += f" ({self._hint})"
                    self._hint = ""
                if now is not None:
                    # The line is still being printed: the next window continues the count, and all its
                    # processes are known.
                    self._seen[key] = _Seen(now, seen.line, seen.batch, seen.ip, seen.workers)
            self._print((*seen.batch[:5], [line]), seen.ip)

    def _print(self, batch: BatchTuple, ip: str) -> None:
        lines = batch[5]
        if not lines:
            return
        stream = self._stream(batch[4])
        if stream is None:
            return
        color = wants_color(stream) if self._color is None else self._color
        if self._progress_on is not None:
            # Erase the unfinished progress bar; its next state draws it again.
            _write(self._progress_on, _ERASE_LINE)
            self._progress_on = None
        print_batch(batch, stream_out=stream, stream_err=stream, color=color, ip=ip, prefixed=self._prefixed)
        if color and lines[-1].endswith("\r"):
            self._progress_on = stream

    def _stream(self, is_err: bool) -> TextIO | None:
        fixed = self._streams[is_err]
        if fixed is not None:
            return fixed
        import sys

        return sys.stderr if is_err else sys.stdout


def _pattern(setting: str, text: str) -> re.Pattern[str] | None:
    """A setting's pattern, compiled; None if it is empty.

    Raises:
        ValueError: it is no regular expression.
    """
    try:
        return re.compile(text) if text else None
    except re.error as error:
        raise ValueError(
            f"The setting {setting} is {text!r}, which is not a regular expression: {error}."
        ) from None
