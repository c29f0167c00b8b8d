"""One request on its way to a replica, from the handle that made it to its answer.

::

    waiting at the router ──► sent to a replica ──► answered
          ▲                        │ the replica refused it, or died before it began
          └────────────────────────┘

Owns where a request is. `current` is the future of its present stage: it becomes the answer, or a `Moved`, which
tells readers to look at `current` again. Any thread.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING

import sundog
from sundog.serve.context import request_context
from sundog.serve.exceptions import RequestCancelledError
from sundog.serve.rows import Rejection, RequestMetadata

if TYPE_CHECKING:
    from sundog.generator import ObjectRefGenerator
    from sundog.refs import ObjectRef
    from sundog.serve.replica_view import Replica
    from sundog.serve.router import Router


class Moved:
    """The result of a stage that has ended without an answer."""


MOVED = Moved()


class Call:
    """A request and where it is."""

    __slots__ = (
        "args", "current", "generator", "is_cancelled", "kwargs", "lock", "meta", "parent", "ref", "replica", "router",
        "settled", "tries", "waiting_on",
    )  # fmt: skip

    def __init__(
        self, router: Router, meta: RequestMetadata, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> None:
        self.router, self.meta, self.args, self.kwargs = router, meta, args, kwargs
        self.current: Future[object] | None = None
        self.ref: ObjectRef[object] | None = None
        self.generator: ObjectRefGenerator[object] | None = None
        self.replica: Replica | None = None
        self.lock = threading.Lock()
        self.is_cancelled = False
        self.settled = False
        self.tries = 0
        self.parent = request_context.get()._internal_request_id  # the request during which this one was made
        # set while arguments are resolved or the request is routed
        self.waiting_on: Future[None] | None = None

    def wait(self) -> Future[object]:
        """The call waits at the router from now on."""
        stage: Future[object] = Future()
        stage.set_running_or_notify_cancel()
        self.current = stage
        return stage

    def sent(
        self,
        replica: Replica,
        ref: ObjectRef[object] | None,
        generator: ObjectRefGenerator[object] | None,
        stage: Future[object],
    ) -> None:
        """The call is with a replica from now on."""
        before, self.current = self.current, stage
        self.replica, self.ref, self.generator = replica, ref, generator
        if before is not None and not before.done():
            before.set_result(MOVED)

    def fail(self, error: BaseException) -> None:
        """The call ends without having been sent."""
        stage = self.current or self.wait()
        if not stage.done():
            stage.set_exception(error)

    def was_refused(self, stage: Future[object], value: object) -> bool:
        """Whether a stage ended without an answer; if so, the request is on its way to another replica."""
        if value is MOVED:
            return True
        if type(value) is Rejection:
            self.router.retry(self, stage)
            return True
        return False

    def may_go_elsewhere(self, stage: Future[object], error: BaseException) -> bool:
        """Whether the replica died before it began this request; if so, the request is on its way to another."""
        if getattr(error, "may_have_run", True) or self.is_cancelled:
            return False
        self.router.retry(self, stage)
        return True

    def cancel(self) -> None:
        """Give the request up, wherever it is."""
        with self.lock:
            if self.is_cancelled:
                return
            self.is_cancelled = True
            ref = self.generator if self.generator is not None else self.ref
        if ref is None:
            self.router.forget(self)
            self.fail(RequestCancelledError(self.meta.request_id))
        else:
            sundog.cancel(ref)
