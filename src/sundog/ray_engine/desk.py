"""The driver's desk: answers commands about its job, by asking the cluster.

Owns the socket in the session's folder and the thread that serves it, one question at a time. Refuses what it does
not know, and other users. Runs in the driver.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
from collections.abc import Callable

from sundog import trust
from sundog.observe.desks import SOCKET, reach

_QUESTION_MAX = 1 << 16
_PATIENCE_S = 5.0

Answers = dict[str, Callable[..., object]]


class Desk:
    """Serves questions until it is closed."""

    def __init__(self, session_path: str, answers: Answers) -> None:
        self._path = f"{session_path}/{SOCKET}"
        self._answers = answers
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._sock.settimeout(None)  # the program may have called socket.setdefaulttimeout()
        with reach(session_path) as address:
            self._sock.bind(address)
        self._sock.listen(4)
        self._thread = threading.Thread(target=self._serve, name="sundog-desk", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                caller, _ = self._sock.accept()
            except OSError:
                return  # closed
            with caller, contextlib.suppress(OSError):
                trust.check_peer(caller)
                caller.settimeout(_PATIENCE_S)
                caller.sendall(json.dumps(self._answer(caller)).encode())

    def _answer(self, caller: socket.socket) -> dict[str, object]:
        try:
            asked = json.loads(caller.makefile("rb").readline(_QUESTION_MAX))
            answer = self._answers.get(asked.pop("ask"))
            if answer is None:
                return {"error": "it does not know this question"}
            caller.settimeout(None)
            return {"answer": answer(**asked)}
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}

    def close(self) -> None:
        """Serve no more."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()
        with contextlib.suppress(OSError):
            os.unlink(self._path)
        self._thread.join()
