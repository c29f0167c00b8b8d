"""An HTTP load generator: wrk where it is installed, else asyncio over raw sockets. Keep-alive, a fixed number of
connections, a fixed time.

Owns the connections. wrk takes a few microseconds for a request. The other one reads answers by their Content-Length or
chunks and no more, and still takes about as long as what it measures: on two cores its rates are lower. Loopback only.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import tempfile
import time
from typing import NamedTuple

_UNITS_MS = {"us": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4}


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


def generator() -> str:
    """Which one measures."""
    return "wrk" if shutil.which("wrk") else "asyncio"


def _wrk(port: int, path: str, body: bytes, connections: int, seconds: float) -> Result:
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        if body:
            script.write(f'wrk.method = "POST"\nwrk.body = string.rep("x", {len(body)})\n')
            script.flush()
        url = f"http://127.0.0.1:{port}{path}"
        options = ["-t1", f"-c{connections}", f"-d{max(1, round(seconds))}", "--latency"]
        given = [*options, "-s", script.name, url] if body else [*options, url]
        told = subprocess.run(["wrk", *given], capture_output=True, text=True, check=True).stdout
    return parse_wrk(told)


def parse_wrk(told: str) -> Result:
    """What wrk has printed, as a result."""

    def latency_ms(share: str) -> float:
        found = re.search(rf"{share}%\s+([\d.]+)(us|ms|s|m)\b", told)
        return float(found[1]) * _UNITS_MS[found[2]] if found else 0.0

    rate = re.search(r"Requests/sec:\s+([\d.]+)", told)
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", told)
    errors = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", told)
    failed = (int(bad[1]) if bad else 0) + (sum(map(int, errors.groups())) if errors else 0)
    return Result(float(rate[1]) if rate else 0.0, latency_ms("50"), latency_ms("99"), failed)


def measure(port: int, path: str, body: bytes = b"", connections: int = 16, seconds: float = 2.0) -> Result:
    """One round against one path."""
    if generator() == "wrk":
        return _wrk(port, path, body, connections, seconds)
    return asyncio.run(_round(port, path, body, connections, seconds))
