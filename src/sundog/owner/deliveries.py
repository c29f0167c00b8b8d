"""What must not run under the owner's lock: brought to a thread of its own, in order.

Owns that thread, `sundog-futures`, started on first use: it completes futures, and prints workers' lines and warnings.
Refuses to know what it runs. Any thread may hand something over; any process with an owner has one of these.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable


class Deliveries:
    """The calls that wait for the thread, and the thread."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Callable[..., None], tuple[object, ...]]] = deque()
        self._event: threading.Semaphore | None = None
        self._thread: threading.Thread | None = None

    def bring(self, call: Callable[..., None], *args: object) -> None:
        """Run a function that unpickles user values on a separate thread, outside the owner's lock."""
        self.can_bring()  # without a thread, a later delivery or the shutdown delivers this one
        assert self._event is not None
        self._waiting.append((call, args))
        self._event.release()

    def can_bring(self) -> bool:
        """Whether the thread for deliveries runs, or can be started now: the system may allow no more threads."""
        if self._event is None:
            self._event = threading.Semaphore(0)
        if self._thread is None:
            thread = threading.Thread(target=self._deliver, daemon=True, name="sundog-futures")
            try:
                thread.start()
            except RuntimeError:
                return False
            self._thread = thread
        return True

    def retry(self) -> None:
        """Start the thread for what waits, if it could not be started before."""
        if self._waiting and self._thread is None:
            self.can_bring()

    def _deliver(self) -> None:
        assert self._event is not None
        while True:
            self._event.acquire()
            if not self._waiting:
                return  # the session is closing
            call, args = self._waiting.popleft()
            try:
                call(*args)
            except Exception:
                # The callback of a future may raise, and stderr may be closed: later futures must be
                # completed anyway.
                with contextlib.suppress(Exception):
                    import traceback

                    traceback.print_exc()
            del call, args  # otherwise these variables would hold the last delivered value until the next one

    def stop(self) -> None:
        """End the thread that completes futures, if there is one."""
        if self._event is not None:
            self._event.release()
            thread, self._thread = self._thread, None
            if thread is None:
                self._deliver()  # deliver what is left because no thread could be started
            elif thread is not threading.current_thread():
                left = -1
                while thread.is_alive() and left != len(self._waiting):
                    left = len(self._waiting)
                    # repeated as long as there is progress: the output of workers is delivered here too
                    thread.join(timeout=2.0)
