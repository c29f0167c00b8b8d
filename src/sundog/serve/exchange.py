"""One HTTP request or WebSocket in a replica, between an ASGI app and the proxy.

::

    proxy ──handle_http(scope, body)──► app runs ──► a whole response: it is the call's result
                                              └────► a stream: the result is its beginning, and the proxy
    proxy ◄──http_stream()── messages as they come            then asks for more with a streaming call
    proxy ──http_input()───► what the client sends later (WebSockets, long bodies)

So an ordinary request costs one call, and only streams cost more. Owns the messages in both directions. Runs in a
replica's event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from sundog.serve.answers import StreamedAnswer, WholeAnswer

if TYPE_CHECKING:
    from starlette.types import Message, Scope

# How many messages an app may be ahead of its client.
_AHEAD_MAX = 256  # messages
_AHEAD_MAX_BYTES = 4 * 1024 * 1024
_TAKEN_MAX_BYTES = 1024 * 1024  # bytes that are given to the proxy at a time


class Exchange:
    """The messages of one request."""

    def __init__(self, scope: Scope, body: bytes, more: bool) -> None:
        self.scope = scope
        self.is_socket = scope["type"] == "websocket"
        self.task: asyncio.Task[None] | None = None
        self.error: BaseException | None = None
        self.status = 0
        self._inbox: deque[Message] = deque()
        self._outbox: deque[Message] = deque()
        self._outbox_bytes = 0
        self._came = asyncio.Event()
        self._sent = asyncio.Event()
        self._taken = asyncio.Event()
        self._is_over = self._is_streaming = False
        self._decided: asyncio.Future[WholeAnswer | StreamedAnswer] = (
            asyncio.get_running_loop().create_future()
        )
        if self.is_socket:
            self._inbox.append({"type": "websocket.connect"})
        else:
            self._inbox.append({"type": "http.request", "body": body, "more_body": more})

    # ------------------------------------------------------------------ the app's side
    async def receive(self) -> Message:
        """ASGI receive."""
        while not self._inbox:
            self._came.clear()
            await self._came.wait()
        message = self._inbox[0]
        if not message["type"].endswith("disconnect"):  # a disconnect is the answer to every later question
            self._inbox.popleft()
        return message

    async def send(self, message: Message) -> None:
        """ASGI send."""
        kind = message["type"]
        if self._is_over:
            return
        if kind == "http.response.start":
            self.status = message["status"]
        self._outbox.append(message)
        self._outbox_bytes += _size(message)
        if kind == "http.response.body" and not message.get("more_body", False):
            self._is_over = True
            if not self._decided.done() and len(self._outbox) == 2 and not self._is_streaming:
                start, end = self._outbox
                self._decided.set_result(
                    WholeAnswer(start["status"], _headers(start), bytes(end.get("body", b"")))
                )
                return
        if kind in ("http.response.body", "websocket.accept", "websocket.close") or self.is_socket:
            self._stream()
        self._sent.set()
        while self._is_far_ahead() and not self._is_over:
            self._taken.clear()
            await self._taken.wait()

    def _is_far_ahead(self) -> bool:
        return len(self._outbox) > _AHEAD_MAX or self._outbox_bytes > _AHEAD_MAX_BYTES

    def _stream(self) -> None:
        """This is not a whole response: let the proxy ask for more.

        Done in the loop's next turn, so that an app with several pieces ready hands them over together. An app that has
        all pieces ready needs no second call.
        """
        if not self._decided.done() and not self._is_streaming:
            self._is_streaming = True
            asyncio.get_running_loop().call_soon(self._begin_stream)

    def _begin_stream(self) -> None:
        if not self._decided.done():
            messages = self._take()
            self._decided.set_result(StreamedAnswer(messages, self._is_over and not self._outbox))

    def ended(self, task: asyncio.Task[None]) -> None:
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
                messages = self._take()
                self._decided.set_result(StreamedAnswer(messages, not self._outbox))
            else:
                self._decided.set_exception(RuntimeError("The ASGI app returned without a response."))
        self._sent.set()
        self._taken.set()

    # ------------------------------------------------------------------ the proxy's side
    async def decided(self) -> WholeAnswer | StreamedAnswer:
        """The response, or its beginning."""
        return await self._decided

    def put(self, messages: list[Message]) -> None:
        """The client has sent more, or is gone."""
        self._inbox.extend(messages)
        self._came.set()

    def _take(self) -> list[Message]:
        found: list[Message] = []
        size = 0
        while self._outbox and (not found or size + _size(self._outbox[0]) <= _TAKEN_MAX_BYTES):
            found.append(self._outbox.popleft())
            size += _size(found[-1])
        self._outbox_bytes -= size
        self._taken.set()
        return found

    async def next(self) -> tuple[list[Message], bool]:
        """The messages that are ready (at least one, unless the exchange is over), and whether these are the last."""
        while not self._outbox and not self._is_over:
            self._sent.clear()
            await self._sent.wait()
        messages = self._take()
        return messages, self._is_over and not self._outbox


def _size(message: Message) -> int:
    return len(message.get("body") or message.get("bytes") or message.get("text") or b"")


def _headers(start: Message) -> list[tuple[bytes, bytes]]:
    return [(bytes(name), bytes(value)) for name, value in start.get("headers", ())]
