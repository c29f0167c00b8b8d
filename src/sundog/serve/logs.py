"""Serve's log lines: the logger `ray.serve`, a file for each replica and proxy, and the access log.

Owns the handlers of this process. The access log is written in batches, straight to its file: a line for each
request would cost more than many requests. Runs in replicas, proxies and the controller.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from typing import TYPE_CHECKING

from sundog import trust
from sundog.printable import printable
from sundog.serve.context import _get_internal_replica_context, request_context
from sundog.serve.schema import EncodingType, LoggingConfig

if TYPE_CHECKING:
    import asyncio
    from typing import TextIO

    from sundog.plain import JsonObject

LOGGER = "ray.serve"
_FLUSH_S = 0.2
_LINES_MAX = 256


class _Facts(logging.Filter):
    def __init__(self, component: str, name: str) -> None:
        super().__init__()
        self._component, self._name = component, name

    def filter(self, record: logging.LogRecord) -> bool:
        request = request_context.get()
        record.component_name, record.component_id = self._component, self._name
        record.request_id, record.route = request.request_id, request.route
        return True


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        request = f" {printable(named)}" if (named := getattr(record, "request_id", "")) else ""
        where = f"{record.component_name} {record.component_id}{request}"  # type: ignore[attr-defined]
        line = f"{record.levelname} {self.formatTime(record)} {where} -- {record.getMessage()}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _Json(logging.Formatter):
    def __init__(self, attrs: list[str]) -> None:
        super().__init__()
        self._attrs = attrs

    def format(self, record: logging.LogRecord) -> str:
        row: JsonObject = {
            "asctime": self.formatTime(record),
            "levelname": record.levelname,
            "message": record.getMessage(),
            "filename": record.filename,
            "lineno": record.lineno,
            "timestamp_ns": time.time_ns(),
        }
        replica = _get_internal_replica_context()
        if replica is not None:
            row |= {
                "application": replica.app_name,
                "deployment": replica.deployment,
                "replica": replica.replica_tag,
            }
        for name in ("component_name", "component_id", "request_id", "route", *self._attrs):
            if getattr(record, name, ""):
                row[name] = getattr(record, name)
        if record.exc_info:
            row["exc_text"] = self.formatException(record.exc_info)
        return json.dumps(row, default=str)


def _open_log(path: str) -> TextIO:
    """The end of a log file, which another user may have prepared if the folder is shared. Raises OSError."""
    return open(trust.open_log(path), "a", encoding="utf-8")


def _say_why(path: str, error: OSError) -> None:
    print(
        f"Serve cannot write its log {path}: {error.strerror or error}. It continues without that file.",
        file=sys.stderr,
    )


class _LogFile(logging.StreamHandler["TextIO"]):
    """A log file that is opened for its first line, and not used if it cannot be opened."""

    def __init__(self, path: str) -> None:
        super().__init__(sys.stderr)
        self._path = path
        self._file: TextIO | None = None
        self._is_off = False

    def emit(self, record: logging.LogRecord) -> None:
        if self._file is None and not self._is_off:
            try:
                self._file = self.stream = _open_log(self._path)
            except OSError as error:
                self._is_off = True
                _say_why(self._path, error)
        if self._file is not None:
            super().emit(record)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file, self._is_off = None, True
        super().close()


def configure(component: str, name: str, folder: str, config: LoggingConfig) -> str:
    """Set up the logger of this process; returns the path of its file, or "" if the folder cannot be written."""
    logger = logging.getLogger(LOGGER)
    logger.propagate = False
    for each in list(logger.handlers):
        logger.removeHandler(each)
        each.close()
    logger.setLevel(config.log_level)
    formatter: logging.Formatter
    if config.encoding == EncodingType.JSON:
        formatter = _Json(config.additional_log_standard_attrs)
    else:
        formatter = _Text()
    handlers: list[logging.Handler] = [logging.StreamHandler(sys.stderr)]
    folder = config.logs_dir or folder
    path = os.path.join(folder, f"{component}_{name}.log".replace("/", "_").replace("#", "_"))
    try:
        _check(folder, path)
        handlers.append(_LogFile(path))
    except OSError as error:
        _say_why(path, error)
        path = ""
    facts = _Facts(component, name)
    for handler in handlers:
        handler.setFormatter(formatter)
        handler.addFilter(facts)
        logger.addHandler(handler)
    return path


def _check(folder: str, path: str) -> None:
    """Make the folder; check it, and check any file that has the name of the log in it. Raises OSError."""
    os.makedirs(folder, exist_ok=True)
    if warning := trust.check_container(folder):
        print(f"Serve writes its logs to {folder}, and {warning}", file=sys.stderr)
    if os.path.lexists(path):
        os.close(trust.open_log(path))


class AccessLog:
    """One line for each request, in the process's log file. In an event loop."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, path: str, config: LoggingConfig, component: str, name: str
    ) -> None:
        self._loop, self._path = loop, path
        self._component, self._name = component, name
        self._is_json = config.encoding == EncodingType.JSON
        self.is_on = bool(path) and config.enable_access_log and config.log_level in ("INFO", "DEBUG")
        self._lines: list[tuple[float, str, str, str, str, float]] = []
        self._file: TextIO | None = None
        self._due = False

    def note(self, request_id: str, method: str, route: str, status: str, seconds: float) -> None:
        """A request has ended."""
        if not self.is_on:
            return
        self._lines.append((time.time(), request_id, method, route, status, seconds))
        if len(self._lines) >= _LINES_MAX:
            self.flush()
        elif not self._due:
            self._due = True
            self._loop.call_later(_FLUSH_S, self.flush)

    def flush(self) -> None:
        """Write what is there."""
        self._due = False
        lines, self._lines = self._lines, []
        if not lines:
            return
        try:
            if self._file is None:
                self._file = _open_log(self._path)
            self._file.write("".join(map(self._line, lines)))
            self._file.flush()
        except OSError:
            self.is_on = False  # the disk is full, or the folder is gone: requests matter more

    def _line(self, row: tuple[float, str, str, str, str, float]) -> str:
        at, asked_id, method, asked_route, status, seconds = row
        # The client chose both values: a path may contain any character, such as %0A, which would forge a
        # line of the log.
        request_id, route = printable(asked_id), printable(asked_route)
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at)) + f",{int(at * 1000) % 1000:03d}"
        message = f"{method} {route} {status} {seconds * 1000:.1f}ms"
        if not self._is_json:
            return f"INFO {when} {self._component} {self._name} {request_id} -- {message}\n"
        return (
            json.dumps(
                {
                    "asctime": when,
                    "levelname": "INFO",
                    "message": message,
                    "component_name": self._component,
                    "component_id": self._name,
                    "request_id": request_id,
                    "route": route,
                    "method": method,
                    "status_code": status,
                    "latency_ms": round(seconds * 1000, 3),
                    "serve_access_log": True,
                }
            )
            + "\n"
        )
