"""Say something once per process: the state behind `log_once`.

Owns a set of keys, guarded by a lock, in each process. Refuses to log by itself: it only answers
whether the caller should. Any thread may call.
"""

from __future__ import annotations

import threading
import time

# In periodic mode a key may be said again after this long.
PERIOD_S = 60.0


class _Once:
    """Which keys have been said, and whether they may be said again."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.said: set[str] = set()
        self.disabled = False
        self.periodic = False
        self.last_said_s = 0.0

    def first(self, key: str) -> bool:
        with self.lock:
            if self.disabled:
                return False
            now_s = time.monotonic()
            if key not in self.said:
                self.said.add(key)
                self.last_said_s = now_s
                return True
            if self.periodic and now_s - self.last_said_s > PERIOD_S:
                # Forget everything: each key is printed again at its next use, not in this call.
                self.said.clear()
                self.last_said_s = now_s
            return False

    def forget(self, key: str | None) -> None:
        with self.lock:
            if key is None:
                self.said.clear()
            else:
                self.said.discard(key)


_once = _Once()


def log_once(key: str) -> bool:
    """Answer True the first time `key` is seen in this process, False afterwards.

    >>> reset_log_once("doc")
    >>> log_once("doc"), log_once("doc")
    (True, False)
    """
    return _once.first(key)


def disable_log_once_globally() -> None:
    """Make every later `log_once` of this process answer False."""
    _once.disabled = True


def enable_periodic_logging() -> None:
    """Let `log_once` answer True again for a key after about a minute."""
    _once.periodic = True


def reset_log_once(key: str | None = None) -> None:
    """Forget one key, or all of them when `key` is None."""
    _once.forget(key)
