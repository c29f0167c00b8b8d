"""Clients that send nonsense, too much, too little or go away: others are served as before, and everything ends."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from sundog import serve
from tests.integration.serve.services import eventually, get, start


def send(port: int, data: bytes, *, read: bool = True) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=120) as client:
        got = b""
        try:
            client.sendall(data)
            if not read:
                return b""
            client.shutdown(socket.SHUT_WR)
            while part := client.recv(65536):
                got += part
        except OSError:
            pass  # a server may close on nonsense without an answer
        return got


def refuses(port: int, data: bytes, status: bytes) -> bool:
    """Whether such a request is answered so; an answer may be lost where the server closes with bytes unread."""
    return any(status in send(port, data) for _ in range(20))


def test_nonsense_is_refused_and_others_are_served(ray: ModuleType, seeds: range) -> None:
    port = start()

    @serve.deployment(ray_actor_options={"num_cpus": 0})
    async def echo(request: Any) -> str:
        return str(len(await request.body()))

    serve.run(echo.bind())
    huge = (
        b"GET / HTTP/1.1\r\nhost: x\r\n"
        + b"".join(b"h%d: %s\r\n" % (i, b"v" * 1000) for i in range(200))
        + b"\r\n"
    )
    assert refuses(port, huge, b" 431 ")
    assert refuses(port, b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n", b" 414 ")
    assert refuses(port, b"nonsense\r\n\r\n", b" 400 ")
    send(port, b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\nhalf", read=False)  # and goes away
    for seed in seeds:
        dice = random.Random(seed)
        whole = b"POST /a?b=c HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\nx-request-id: \xff\r\n\r\nhello"
        bytes_ = bytearray(whole)
        for _ in range(dice.randint(1, 8)):
            bytes_[dice.randrange(len(bytes_))] = dice.randrange(256)
        send(port, bytes(bytes_))
    assert get("/", port, "POST", b"hello")[:2] == (200, "5")


def test_a_killed_driver_leaves_no_process_and_no_listener(tmp_path: Path, leak_check: Path) -> None:
    program = tmp_path / "app.py"
    program.write_text(
        "import sys, sundog as ray\n"
        "from sundog import serve\n"
        "from sundog.serve import client\n"
        "@serve.deployment\n"
        "def hello(): return 'hello'\n"
        "serve.start(http_options={'port': 0})\n"
        "serve.run(hello.bind())\n"
        "print(ray.get(client.connect().controller.ready.remote())[1], flush=True)\n"
        "sys.stdin.read()\n",
        encoding="utf-8",
    )
    driver = subprocess.Popen(
        [sys.executable, str(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert driver.stdout is not None
    assert driver.stdin is not None
    port = int(driver.stdout.readline())
    assert get("/", port)[1] == "hello"
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    driver.stdin.close()
    driver.stdout.close()

    def nobody_listens() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) != 0

    eventually(nobody_listens)


def test_a_client_that_goes_away_cancels_its_request_unless_it_asked_for_the_opposite(
    ray: ModuleType, tmp_path: Path
) -> None:
    port = start()

    @serve.deployment(ray_actor_options={"num_cpus": 0})
    class Slow:
        async def __call__(self, request: Any) -> str:
            name = request.url.path.strip("/")
            (tmp_path / f"{name}-begun").touch()
            try:
                while not (tmp_path / "over").exists():
                    await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                (tmp_path / f"{name}-cancelled").touch()
                raise
            (tmp_path / f"{name}-finished").touch()
            return "done"

    serve.run(Slow.bind())
    for name, head in (("leaves", ""), ("stays", "x-request-disconnect-disabled: 1\r\n")):
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(f"GET /{name} HTTP/1.1\r\nhost: x\r\n{head}\r\n".encode())
            eventually((tmp_path / f"{name}-begun").exists, 60)
    eventually((tmp_path / "leaves-cancelled").exists, 60)
    (tmp_path / "over").touch()
    eventually((tmp_path / "stays-finished").exists, 60)
    assert not (tmp_path / "leaves-finished").exists() and not (tmp_path / "stays-cancelled").exists()
