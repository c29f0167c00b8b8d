"""Having a signal come again in a moment: for a handler that was called where it must not raise.

Owns the short-lived thread that sends it. Called by the handlers of Ctrl-C and of cancelling, so on the main thread
between any two steps of any code, even inside a `join()` with one of threading's locks held: `Timer.start()` would
wait for it for ever. A raw thread takes no lock of Python's.
"""

from __future__ import annotations

import _thread
import contextlib
import time
from collections.abc import Callable
from typing import Any


def send_later(delay_s: float, send: Callable[..., object], *args: Any) -> None:
    """Call `send(*args)` after a moment, from a thread of its own; at once if there can be no more threads."""
    try:
        _thread.start_new_thread(_send, (delay_s, send, args))
    except RuntimeError:
        send(*args)


def _send(delay_s: float, send: Callable[..., object], args: tuple[Any, ...]) -> None:
    time.sleep(delay_s)
    with contextlib.suppress(OSError):  # who was to get it may be gone
        send(*args)
