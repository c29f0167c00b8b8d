"""One call to every replica of a deployment: `handle.broadcast()`.

Owns the waiting for all answers. A broadcast passes no queue: it is for rare control calls. Any thread.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concurrent.futures import Future

    from sundog.serve.router import Router
    from sundog.serve.rows import RequestMetadata

_LATE = "The broadcast's time is up, and not every replica has answered. Give a longer timeout_s."
_LOOK_S = 0.02


class DeploymentBroadcastResponse:
    """The answers of all replicas."""

    def __init__(
        self, router: Router, meta: RequestMetadata, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> None:
        self._router, self._meta, self._args, self._kwargs = router, meta, args, kwargs
        self._futures: list[Future[object]] | None = None
        self._send()

    def _send(self) -> bool:
        """Send the calls as soon as a replica is known."""
        if self._futures is None:
            running = self._router.running()
            if running:
                self._futures = [
                    each.actor.handle_control.remote(self._meta, *self._args, **self._kwargs).future()
                    for each in running
                ]
        return self._futures is not None

    def results(self, *, timeout_s: float | None = None, return_exceptions: bool = False) -> list[Any]:
        """One answer for each replica.

        Raises:
            TimeoutError: they did not all come in time.
            RuntimeError: called in an event loop, which it would block.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise RuntimeError(
                "results() would block the event loop that this code runs in. Write `await "
                "response.results_async()` here."
            )
        deadline = _deadline(timeout_s)
        while not self._send():
            _check(deadline)
            time.sleep(_LOOK_S)
        found: list[object] = []
        for future in self._futures or ():
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            try:
                found.append(future.result(left))
            except Exception as error:
                if not future.done():
                    raise TimeoutError(_LATE) from None
                if not return_exceptions:
                    raise
                found.append(error)
        return found

    async def results_async(
        self, *, timeout_s: float | None = None, return_exceptions: bool = False
    ) -> list[Any]:
        """The same, in an event loop."""
        deadline = _deadline(timeout_s)
        while not self._send():
            _check(deadline)
            await asyncio.sleep(_LOOK_S)
        futures = self._futures or []
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        if all(each.done() for each in futures):
            left = None  # the loop only has to pass the answers on
        waiting = [asyncio.wrap_future(each) for each in futures]
        gathered = asyncio.gather(*waiting, return_exceptions=return_exceptions)
        try:
            # Shielded: a cancelled wait would cancel the calls, and a later question would find no answers.
            return list(await asyncio.wait_for(asyncio.shield(gathered), left))
        except TimeoutError:
            if gathered.done():
                return list(gathered.result())  # raises, if the TimeoutError is a replica's own
            raise TimeoutError(_LATE) from None

    def __repr__(self) -> str:
        return "DeploymentBroadcastResponse()"


def _deadline(timeout_s: float | None) -> float | None:
    if timeout_s is not None and timeout_s < 0:
        raise ValueError(f"timeout_s takes None or a number of seconds, 0 or more, not {timeout_s!r}.")
    return None if timeout_s is None else time.monotonic() + timeout_s


def _check(deadline: float | None) -> None:
    if deadline is not None and time.monotonic() > deadline:
        raise TimeoutError(_LATE)
