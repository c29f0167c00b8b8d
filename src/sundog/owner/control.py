"""The line to the node: requests and their answers, and the messages it sends by itself.

Owns the correlation of requests, and the names of what is where in the session. Messages are handled
under the owner's lock by whichever thread reads.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, cast

from sundog.exceptions import GetTimeoutError, LocalRayletDiedError, RaySystemError
from sundog.net.packets import NoRoom, receive_buffer
from sundog.owner.basics import Basics
from sundog.owner.death_errors import child_cause
from sundog.owner.rows import ROOM_AGAIN_S, Shape
from sundog.wire import requests as ask
from sundog.wire.control import Answer, Rpc, ToNode, WantLeases
from sundog.wire.requests import Request
from sundog.wire.row import Table

if TYPE_CHECKING:
    from sundog.owner.interfaces import Blocking
    from sundog.wire.dicts import SessionFacts

__tracebackhide__ = True  # pytest folds the frames of this file

A = TypeVar("A")
_RPC = b"rpc"
_ROOM_TRIES = 40
# The node answers these at once. It may answer other requests only when something has happened.
_PROMPT = (
    ask.ClusterResources,
    ask.AvailableResources,
    ask.Nodes,
    ask.GetActor,
    ask.ActorInfo,
    ask.ListNamedActors,
    ask.PgByName,
    ask.PgTable,
    ask.KeyValueGet,
    ask.KeyValuePut,
    ask.KeyValueDel,
    ask.KeyValueKeys,
)


class Control:
    """The node as seen from one process."""

    getting: Blocking  # set by the owner, which builds it later

    def __init__(self, basics: Basics, session: SessionFacts) -> None:
        self.basics = basics
        self.session = session
        self.shm_root: str = session["shm_root"]
        self.receive_buffer = receive_buffer()
        # message -> handler: owner/messages.py, plus the handlers of the driver or the worker
        self.table = Table()
        self.on_lost: Callable[[], None] | None = None
        self.last_grant = 0  # the number of the last grant that was read; each want says it
        self._requests = itertools.count(1)
        self._asked: set[int] = set()
        self._answers: dict[int, tuple[bool, object]] = {}

    def ring_path(self, process: bytes) -> str:
        """Where a process' flight recorder is."""
        return f"{self.session['path']}/rings/{process.hex()}.ring"

    def log_path(self, process: bytes) -> str:
        """The path of a worker's stderr log; its stdout log has the same name with the ending .out."""
        return f"{self.session['path']}/logs/worker-{process.hex()}.err"

    def stack_path(self, process: bytes) -> str:
        """The path of the file to which a worker that cannot run Python writes its stacks on request."""
        return f"{self.session['path']}/logs/worker-{process.hex()}.stack"

    # ------------------------------------------------------------------ sending
    def send(self, message: ToNode, fds: tuple[int, ...] = ()) -> None:
        """Send one message. If the node is gone, the reader of its socket notices it.

        Raises:
            RaySystemError: the message is large, and there is no room for it in memory or on disk.
        """
        tries = 0
        while True:
            try:
                self.basics.node.send(message, fds)
            except NoRoom as error:
                tries += 1
                if tries > _ROOM_TRIES:
                    raise RaySystemError(
                        f"The message {message.kind!r} cannot be sent to the node. {error.strerror}. Free refs that "
                        "you no longer need, or close files. See: df -h, ulimit -n"
                    ) from None
                time.sleep(ROOM_AGAIN_S)
                continue
            except OSError:
                if type(message) is Rpc:
                    if self.basics.reactor.is_robbed():
                        self.basics.check_open()
                    if self.basics.closed is None:
                        raise self.lost_error() from None
            return

    def want(self, shape: Shape, count: int) -> None:
        """Tell how many more leases a shape could use, and for which functions (the first and last that wait)."""
        queue = shape.queue
        functions = tuple({queue[0].fn.name, queue[-1].fn.name}) if count and queue else ()
        self.send(WantLeases(shape.key, shape.spec, count, functions, self.last_grant))

    def request(self, question: Request[A], timeout_s: float | None = None) -> A:
        """Ask the node and wait for its answer.

        Raises:
            GetTimeoutError: no answer in time.
            Exception: what the node answered with.
        """
        if timeout_s is None and isinstance(question, _PROMPT):
            timeout_s = self.basics.config.gcs_server_request_timeout_seconds or None
        number = next(self._requests)
        key = _RPC + number.to_bytes(8, "little")
        with self.basics.lock:
            self.basics.check_open()
            self._asked.add(number)
            self.send(Rpc(number, question.kind, question[1:]))
        try:
            if not self.getting.block_until(lambda: number in self._answers, key, timeout_s):
                self.basics.check_open()
                raise GetTimeoutError(
                    f"The node did not answer {question.kind!r} within {timeout_s} s. It is stopped, or the machine is "
                    "overloaded. See: sundog status"
                )
        finally:
            with self.basics.lock:
                self._asked.discard(number)
                ok, value = self._answers.pop(number, (False, None))
        if not ok:
            error = [value if isinstance(value, BaseException) else RaySystemError(str(value))]
            # an error refers to its traceback, whose frames would refer to the error: the cycle would keep
            # the callers' values
            del value
            raise error.pop()
        return cast(A, value)

    # ------------------------------------------------------------------ receiving (locked)
    def read(self) -> None:
        """Handle what the node sent."""
        basics = self.basics
        for _ in range(64):
            try:
                received = basics.node.receive()
            except BlockingIOError:
                return
            except OSError:
                received = None
            if received is None:
                basics.reactor.remove(basics.node.fileno())
                if self.on_lost is not None:
                    self.on_lost()
                return
            message, fds = received
            if not self.table.handle(message, fds=fds):
                for fd in fds:
                    os.close(fd)

    def answered(self, message: Answer) -> None:
        """The node answers a request; nothing if the asker has given up."""
        number = message.number
        if number in self._asked:
            self._answers[number] = (message.ok, message.value)
            self.basics.objects.announce(_RPC + number.to_bytes(8, "little"))

    def _last_words(self) -> str:
        """The end of the node's log, unless it only says that the node was asked to stop."""
        try:
            with open(f"{self.session['path']}/logs/node.log", encoding="utf-8", errors="replace") as file:
                text = file.read()[-1500:].strip()
        except OSError:
            return ""
        return f", which ends with:\n{text}" if text else ""

    def lost_error(self) -> LocalRayletDiedError:
        """The error once the node is gone."""
        pid = self.session.get("node_pid")
        cause = child_cause(pid) if pid else None
        told = cause.text() if cause is not None else "its end of our socket is closed."
        return LocalRayletDiedError(
            f"The node process (pid {pid}) of session {self.session.get('name')} is gone: {told} Everything of this "
            "session has ended with it. Call sundog.shutdown() and sundog.init() to start a new session. "
            f"Its log: {self.session.get('path')}/logs/node.log{self._last_words()}",
            pid=pid,
            exit_code=cause.exit_code if cause is not None else None,
            signal=cause.signal if cause is not None else None,
        )
