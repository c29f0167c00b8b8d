"""The rest of a long request body, read straight into the bytes that are handed on.

::

    socket ──recv_into──► one buffer of the body's length ──► BoundedProtocol.body_read()
                          in memory that replicas share (`shared_bodies.py`), if there is room

Owns the connection's incoming bytes from the moment when a head with a length has been parsed until that many bytes are
there; then they are the HTTP protocol's again. So a body of a megabyte is not cut into pieces, copied by the parser
and joined. The reader never reads beyond the body: what follows on the connection is the next request. In a proxy's
loop.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sundog.serve.shared_bodies import BodySlot


class BodyTaker(Protocol):
    """The HTTP protocol whose place the reader takes (`http_protocol.BoundedProtocol`)."""

    def body_read(self, body: bytearray | BodySlot) -> None:
        """The body is whole."""

    def eof_received(self) -> None: ...

    def connection_lost(self, exc: Exception | None) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


class BodyReader(asyncio.BufferedProtocol):
    """Reads one body; takes the place of the HTTP protocol meanwhile."""

    def __init__(
        self, protocol: BodyTaker, length: int, parts: list[bytes], slot: BodySlot | None = None
    ) -> None:
        self._protocol = protocol
        self._length, self._slot = length, slot
        self._body = bytearray(length if slot is None else 0)
        self._view = memoryview(self._body) if slot is None else slot.view
        self._filled = 0
        for part in parts:
            self._view[self._filled : self._filled + len(part)] = part
            self._filled += len(part)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        return self._view[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """`nbytes` more of the body have come."""
        self._filled += nbytes
        if self._filled < self._length:
            return
        slot, self._slot = self._slot, None
        if slot is None:
            self._view.release()
            self._protocol.body_read(self._body)
        else:
            self._protocol.body_read(slot)

    def eof_received(self) -> bool | None:
        """The client sends no more: the request stays incomplete."""
        self._protocol.eof_received()
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        if self._slot is not None:
            self._slot.release()
            self._slot = None
        self._protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        """The client reads slowly."""
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """The consumer has caught up."""
        self._protocol.resume_writing()
