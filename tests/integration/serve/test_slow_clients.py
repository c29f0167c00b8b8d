"""Clients that send or read slowly, or close one direction: others are served as before, and memory is bounded."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from sundog import serve
from sundog.util import state
from tests.integration.serve.services import eventually, get, start


def resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def pids(kind: str) -> list[int]:
    return [each.pid for each in state.list_actors() if kind in each.class_name and each.pid]


def test_a_head_that_takes_too_long_is_refused_and_others_are_served(ray: ModuleType) -> None:
    port = start(head_timeout_s=1.0)

    @serve.deployment(ray_actor_options={"num_cpus": 0})
    def hello() -> str:
        return "hello"

    serve.run(hello.bind())
    slow = [socket.create_connection(("127.0.0.1", port), timeout=120) for _ in range(20)]
    try:
        for number, client in enumerate(slow):
            client.sendall(b"GET / HTTP/1.1\r\nhost: x\r\nx-a: "[: number + 1])
        assert get("/", port)[:2] == (200, "hello")
        for client in slow:
            got = b""
            while part := client.recv(65536):
                got += part
            assert got.startswith(b"HTTP/1.1 408 ")
    finally:
        for client in slow:
            client.close()
    with socket.create_connection(
        ("127.0.0.1", port), timeout=120
    ) as client:  # a second head may be slow, too
        client.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\nGET / HT")
        got = b""
        while part := client.recv(65536):
            got += part
    assert got.startswith(b"HTTP/1.1 200 ") and b"HTTP/1.1 408 " in got


def test_a_body_may_come_slowly(ray: ModuleType) -> None:
    port = start()

    @serve.deployment(ray_actor_options={"num_cpus": 0})
    async def size(request: Any) -> str:
        return str(len(await request.body()))

    serve.run(size.bind())
    stuck = socket.create_connection(("127.0.0.1", port), timeout=120)
    stuck.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\nsome")  # and no more
    with socket.create_connection(("127.0.0.1", port), timeout=120) as client:
        client.sendall(b"POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 20\r\n\r\n")
        for _ in range(20):
            client.sendall(b"x")
            time.sleep(0.01)
        got = b""
        while part := client.recv(65536):
            got += part
    assert got.endswith(b"\r\n\r\n20")
    assert get("/", port, "POST", b"hello")[:2] == (200, "5")
    stuck.close()


def test_a_client_that_does_not_read_holds_up_nobody_and_fills_no_memory(ray: ModuleType) -> None:
    port = start()

    @serve.deployment(ray_actor_options={"num_cpus": 0}, max_ongoing_requests=10)
    class Large:
        async def __call__(self, request: Any) -> Any:
            from starlette.responses import StreamingResponse

            async def items() -> Any:
                for _ in range(400):
                    yield b"x" * 1_000_000

            return StreamingResponse(items()) if "all" in request.query_params else "small"

    serve.run(Large.bind())
    assert get("/", port)[:2] == (200, "small")
    before = {pid: resident_bytes(pid) for pid in pids("Proxy") + pids("Replica")}
    with socket.create_connection(("127.0.0.1", port), timeout=120) as client:
        client.sendall(b"GET /?all=1 HTTP/1.1\r\nhost: x\r\n\r\n")
        assert client.recv(10)  # it has begun; the client reads no more
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline:
            assert get("/", port)[:2] == (200, "small")
        for pid, was in before.items():
            assert resident_bytes(pid) - was < 150_000_000  # of the 400 MB of the answer
    eventually(lambda: get("/", port)[:2] == (200, "small"))


def test_a_client_that_closes_its_sending_half_harms_nobody(ray: ModuleType) -> None:
    port = start()

    @serve.deployment(ray_actor_options={"num_cpus": 0})
    def hello() -> str:
        return "hello"

    serve.run(hello.bind())
    halves = [
        b"",
        b"GET / HT",
        b"GET / HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nhalf",
    ]
    for half in halves * 5:
        with socket.create_connection(("127.0.0.1", port), timeout=120) as client:
            client.sendall(half)
            client.shutdown(socket.SHUT_WR)
            while client.recv(65536):
                pass
    assert get("/", port)[:2] == (200, "hello")
