"""An HTTP load generator: asyncio over raw sockets, keep-alive, a fixed number of connections, a fixed time.

Owns the connections. It reads answers by their Content-Length or chunks and no more, so that it costs less than
what it measures. Loopback only.
"""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple


class Result(NamedTuple):
    """What one round measured."""

    per_second: float
    p50_ms: float
    p99_ms: float
    failed: int


async def _answer(reader: asyncio.StreamReader) -> bool:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if b"content-length:" in head:
        size = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
        await reader.readexactly(size)
    elif b"transfer-encoding: chunked" in head:
        while (size := int((await reader.readline()).strip() or b"0", 16)) > 0:
            await reader.readexactly(size + 2)
        await reader.readline()
    return head.startswith(b"http/1.1 200")


async def _client(port: int, request: bytes, end: float, times: list[float]) -> int:
    failed = 0
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        while (began := time.perf_counter()) < end:
            writer.write(request)
            await writer.drain()
            failed += not await _answer(reader)
            times.append(time.perf_counter() - began)
    finally:
        writer.close()
    return failed


async def _round(port: int, path: str, body: bytes, connections: int, seconds: float) -> Result:
    verb = "POST" if body else "GET"
    head = f"{verb} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
    request = head.encode() + body
    times: list[float] = []
    end = time.perf_counter() + seconds
    clients = [_client(port, request, end, times) for _ in range(connections)]
    failed = sum(await asyncio.gather(*clients))
    times.sort()
    if not times:
        return Result(0, 0, 0, failed)
    return Result(
        len(times) / seconds, times[len(times) // 2] * 1000, times[int(len(times) * 0.99)] * 1000, failed
    )


def measure(port: int, path: str, body: bytes = b"", connections: int = 16, seconds: float = 2.0) -> Result:
    """One round against one path."""
    return asyncio.run(_round(port, path, body, connections, seconds))
