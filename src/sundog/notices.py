"""What sundog itself has to say in a process: through the logger `sundog`, to standard error.

Owns that logger's level, format and handler, as `init(logging_level=…, logging_format=…, configure_logging=…)` wants
them. The module `logging` is imported when there is something to say, or when the program has it already: nothing
here may slow down a start. Runs in any process, any thread.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging

LEVELS = {
    "CRITICAL": 50,
    "FATAL": 50,
    "ERROR": 40,
    "WARNING": 30,
    "WARN": 30,
    "INFO": 20,
    "DEBUG": 10,
    "NOTSET": 0,
}
_WARNING, _INFO = 30, 20
_NAME = "sundog"


class RayDeprecationWarning(DeprecationWarning):
    """A deprecated name was used. Shown by default, unlike a plain DeprecationWarning."""


class _Wanted:
    level = _INFO
    format: str | None = None
    ours = True  # whether sundog sets handler and level, or the program does
    is_applied = False


_wanted = _Wanted()


def level_of(value: object, what: str) -> int:
    """A level as a number, from a number or a name.

    >>> level_of("warning", "logging_level")
    30

    Raises:
        ValueError: it is neither.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    number = LEVELS.get(value.upper()) if isinstance(value, str) else None
    if number is None:
        raise ValueError(f"{what} must be a number or one of {', '.join(LEVELS)}, not {value!r}.")
    return number


def configure(*, level: int = _INFO, form: str | None = None, ours: bool = True) -> None:
    """Say from now on what is at least of this level, in this format; or leave both to the program (`ours`)."""
    _wanted.level, _wanted.format, _wanted.ours = level, form, ours
    _wanted.is_applied = False
    if "logging" in sys.modules:
        _logger()


def settings() -> tuple[int, str | None, bool] | None:
    """Level, format and whose they are, as `configure` was last told, for a worker; None if that is the default."""
    if _wanted.level == _INFO and _wanted.format is None and _wanted.ours:
        return None
    return _wanted.level, _wanted.format, _wanted.ours


def error(text: str) -> None:
    """Something that went wrong in the user's program, and that no other part of sundog tells."""
    _logger().error("%s", text)


def warn(text: str) -> None:
    """Something that the user should act on."""
    if not _say_plainly(_WARNING, text):
        _logger().warning("%s", text)


def note(text: str) -> None:
    """Something that the user may want to know."""
    if not _say_plainly(_INFO, text):
        _logger().info("%s", text)


def is_debugging() -> bool:
    """Whether `detail` would be shown."""
    return _wanted.level <= LEVELS["DEBUG"] if _wanted.ours else _logger().isEnabledFor(LEVELS["DEBUG"])


def detail(text: str) -> None:
    """Say something at debug level."""
    _logger().debug("%s", text)


def _say_plainly(level: int, text: str) -> bool:
    """Say something without `logging`, whose import takes longer than a start may: if the program does not use it
    either, and if the result is the same. Returns whether that is so."""
    if "logging" in sys.modules or not _wanted.ours or _wanted.format is not None:
        return False
    if level >= _wanted.level and sys.stderr is not None:
        try:
            sys.stderr.write(_plain_line(level, text) + "\n")
        except (OSError, ValueError):
            pass  # the stream is closed: ignored, as `logging` does
    return True


def _plain_line(level: int, text: str) -> str:
    return f"(sundog) {'WARNING: ' if level >= _WARNING else ''}{text}"


def stderr_handler(formatter: logging.Formatter) -> logging.Handler:
    """A handler that writes to whatever `sys.stderr` is at the time: a notebook gives each cell its own."""
    import logging

    class StderrHandler(logging.StreamHandler):  # type: ignore[type-arg]
        """Made by sundog; `setStream` would have no effect on it."""

        made_by_sundog = True

        @property
        def stream(self) -> object:
            return sys.stderr

        @stream.setter
        def stream(self, _: object) -> None:
            return

    handler = StderrHandler()
    handler.setFormatter(formatter)
    return handler


def drop_handlers(logger: logging.Logger) -> None:
    """Take away the handlers that `stderr_handler` made for this logger before."""
    for handler in list(logger.handlers):
        if getattr(handler, "made_by_sundog", False):
            logger.removeHandler(handler)


def _logger() -> logging.Logger:
    import logging

    logger = logging.getLogger(_NAME)
    if _wanted.is_applied:
        return logger
    _wanted.is_applied = True
    drop_handlers(logger)
    logger.propagate = not _wanted.ours
    if _wanted.ours:
        logger.setLevel(_wanted.level)
        logger.addHandler(stderr_handler(_formatter(_wanted.format)))
    return logger


def _formatter(form: str | None) -> logging.Formatter:
    import logging

    class NoticeFormatter(logging.Formatter):
        """`(sundog) WARNING: text`; what is no warning goes without its level."""

        def format(self, record: logging.LogRecord) -> str:
            level = f"{record.levelname}: " if record.levelno >= _WARNING else ""
            return f"(sundog) {level}{record.getMessage()}"

    return NoticeFormatter() if form is None else logging.Formatter(form)
