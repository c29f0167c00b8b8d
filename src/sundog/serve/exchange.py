"""One HTTP request or WebSocket in a replica, between an ASGI app and the proxy.

::

    proxy ──handle_http(scope, body)──► app runs ──► a whole response: it is the call's result
                                              └────► a stream: the result is its beginning, and the proxy
    proxy ◄──http_stream()── messages as they come            then asks for the rest with a streaming call
    proxy ──http_input()───► what the client sends later (WebSockets, long bodies)

So an ordinary request costs one call, and only streams cost more. Owns the messages in both directions. Runs in a
replica's event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from sundog.serve.answers import Answer, Stream

_AHEAD_MAX = 256  # messages that an app may be ahead of the client


class Exchange:
    """The messages of one request."""

    def __init__(self, scope: dict[str, Any], body: bytes, more: bool) -> None:
        self.scope = scope
        self.is_socket = scope["type"] == "websocket"
        self.task: asyncio.Task[Any] | None = None
        self.error: BaseException | None = None
        self.status = 0
        self._inbox: deque[dict[str, Any]] = deque()
        self._outbox: deque[dict[str, Any]] = deque()
        self._came = asyncio.Event()
        self._sent = asyncio.Event()
        self._taken = asyncio.Event()
        self._is_over = False
        self._decided: asyncio.Future[Answer | Stream] = asyncio.get_running_loop().create_future()
        if self.is_socket:
            self._inbox.append({"type": "websocket.connect"})
        else:
            self._inbox.append({"type": "http.request", "body": body, "more_body": more})

    # ------------------------------------------------------------------ the app's side
    async def receive(self) -> dict[str, Any]:
        """ASGI receive."""
        while not self._inbox:
            self._came.clear()
            await self._came.wait()
        message = self._inbox[0]
        if not message["type"].endswith("disconnect"):  # that is the answer to every further question
            self._inbox.popleft()
        return message

    async def send(self, message: dict[str, Any]) -> None:
        """ASGI send."""
        kind = message["type"]
        if self._is_over:
            return
        if kind == "http.response.start":
            self.status = message["status"]
        self._outbox.append(message)
        if kind == "http.response.body" and not message.get("more_body", False):
            self._is_over = True
            if not self._decided.done() and len(self._outbox) == 2:
                start, end = self._outbox
                self._decided.set_result(
                    Answer(start["status"], _headers(start), bytes(end.get("body", b"")))
                )
                return
        if kind in ("http.response.body", "websocket.accept", "websocket.close") or self.is_socket:
            self._stream()
        self._sent.set()
        while len(self._outbox) > _AHEAD_MAX and not self._is_over:
            self._taken.clear()
            await self._taken.wait()

    def _stream(self) -> None:
        """This is not a whole response: let the proxy ask for more."""
        if not self._decided.done():
            self._decided.set_result(Stream(self._take(), self._is_over))

    def ended(self, task: asyncio.Task[Any]) -> None:
        """The app has returned, or raised."""
        self._is_over = True
        if task.cancelled():
            self.error = asyncio.CancelledError()
        else:
            self.error = task.exception()
        if not self._decided.done():
            if self.error is not None:
                self._decided.set_exception(self.error)
            elif self._outbox:
                self._decided.set_result(Stream(self._take(), True))
            else:
                self._decided.set_exception(RuntimeError("The ASGI app returned without a response."))
        self._sent.set()
        self._taken.set()

    # ------------------------------------------------------------------ the proxy's side
    async def decided(self) -> Answer | Stream:
        """The response, or its beginning."""
        return await self._decided

    def put(self, messages: list[dict[str, Any]]) -> None:
        """The client has sent more, or is gone."""
        self._inbox.extend(messages)
        self._came.set()

    def _take(self) -> list[dict[str, Any]]:
        found = list(self._outbox)
        self._outbox.clear()
        self._taken.set()
        return found

    async def next(self) -> tuple[list[dict[str, Any]], bool]:
        """The messages that are there, at least one unless it is over, and whether that is all."""
        while not self._outbox and not self._is_over:
            self._sent.clear()
            await self._sent.wait()
        return self._take(), self._is_over


def _headers(start: dict[str, Any]) -> list[tuple[bytes, bytes]]:
    return [(bytes(name), bytes(value)) for name, value in start.get("headers", ())]
