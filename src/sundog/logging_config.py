"""`LoggingConfig`: lines of the program's own logging that say which job, task and actor they come from.

    >>> import sundog
    >>> sundog.LoggingConfig(encoding="JSON", log_level="DEBUG").to_dict()["encoding"]
    'JSON'

Given to `init(logging_config=…)` it sets up the root logger of the driver and of every worker of its job. Imported only
where it is used. Main thread, while a process starts.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sundog import notices
from sundog.runtime_context import RuntimeContext

if TYPE_CHECKING:
    from sundog.plain import JsonObject

_ENCODINGS = ("TEXT", "JSON")
# Attributes that every record has; other attributes of a record came with `extra=`.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_SHOWN = ("asctime", "levelname", "message", "filename", "lineno", "process")


@dataclass
class LoggingConfig:
    """How a program and its workers write what they log.

    Args:
        encoding: "TEXT", or "JSON": an object a line.
        log_level: from which level on, a name or a number.
        additional_log_standard_attrs: further attributes of `logging.LogRecord` to write, as "name" or "funcName".
    """

    encoding: str = "TEXT"
    log_level: str | int = "INFO"
    additional_log_standard_attrs: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.encoding not in _ENCODINGS:
            raise ValueError(
                f"encoding of LoggingConfig must be one of {', '.join(_ENCODINGS)}, not {self.encoding!r}."
            )
        notices.level_of(self.log_level, "log_level of LoggingConfig")
        wanted = self.additional_log_standard_attrs
        if not isinstance(wanted, (list, tuple)):
            raise ValueError(f"additional_log_standard_attrs must be a list of names, not {wanted!r}.")
        for name in wanted:
            if name not in _STANDARD:
                raise ValueError(
                    f"additional_log_standard_attrs names {name!r}, which is not an attribute of a "
                    "log record. The names: "
                    f"{', '.join(sorted(_STANDARD))}."
                )

    def to_dict(self) -> JsonObject:
        """The settings, by name."""
        return {
            "encoding": self.encoding,
            "log_level": self.log_level,
            "additional_log_standard_attrs": list(self.additional_log_standard_attrs),
        }

    @classmethod
    def from_dict(cls, settings: JsonObject) -> LoggingConfig:
        """What `to_dict` gave."""
        return cls(**settings)


def apply(settings: dict[str, object]) -> None:
    """Set up the root logger of this process; handlers that the program has there keep working."""
    config = LoggingConfig.from_dict(settings)
    kind = JsonFormatter if config.encoding == "JSON" else TextFormatter
    root = logging.getLogger()
    notices.drop_handlers(root)
    root.addHandler(notices.stderr_handler(kind(config.additional_log_standard_attrs)))
    root.setLevel(notices.level_of(config.log_level, "log_level"))
    notices.configure(ours=False)  # sundog's own messages are written in the same format


class _ContextFormatter(logging.Formatter):
    def __init__(self, more: list[str]) -> None:
        super().__init__()
        self.more = [name for name in more if name not in _SHOWN]

    def facts(self, record: logging.LogRecord) -> dict[str, object]:
        """What is known beside the message: attributes asked for, `extra=`, and the running task and actor."""
        found = {name: getattr(record, name, None) for name in self.more}
        found.update((name, value) for name, value in vars(record).items() if name not in _STANDARD)
        running = RuntimeContext()  # not get_runtime_context(): writing a log line must not start a session
        found["job_id"] = running.get_job_id()
        found["worker_id"] = running.get_worker_id()
        found["node_id"] = running.get_node_id()
        found["actor_id"] = running.get_actor_id()
        found["task_id"] = running.get_task_id()
        found["task_name"] = running.get_task_name()
        found["task_func_name"] = running.get_task_function_name()
        found["actor_name"] = running.get_actor_name()
        found["timestamp_ns"] = int(record.created * 1e9)
        return {name: value for name, value in found.items() if value is not None and value != ""}

    def trace(self, record: logging.LogRecord) -> str:
        """Traceback and stack, if it has any."""
        parts = [self.formatException(record.exc_info)] if record.exc_info else []
        if record.stack_info:
            parts.append(self.formatStack(record.stack_info))
        return "\n".join(parts)


class TextFormatter(_ContextFormatter):
    """A line for people: when, how bad, where, what, and then `name=value` for every other fact."""

    def format(self, record: logging.LogRecord) -> str:
        """One record; a traceback follows its line."""
        facts = " ".join(f"{name}={value}" for name, value in self.facts(record).items())
        trace = self.trace(record)
        return (
            f"{self.formatTime(record)}\t{record.levelname} {record.filename}:{record.lineno} -- "
            f"{record.getMessage()} {facts}" + (f"\n{trace}" if trace else "")
        )


class JsonFormatter(_ContextFormatter):
    """A line for programs: one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """One record, always on one line."""
        shown = {
            "asctime": self.formatTime(record),
            "levelname": record.levelname,
            "message": record.getMessage(),
            "filename": record.filename,
            "lineno": record.lineno,
            "process": record.process,
        }
        trace = self.trace(record)
        if trace:
            shown["exc_text"] = trace
        return json.dumps({**shown, **self.facts(record)}, default=str)
