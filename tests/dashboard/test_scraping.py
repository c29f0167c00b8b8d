"""The program that answers with figures: who may read, and what it says to others."""

from __future__ import annotations

import http.client
import os
import socket
import threading
from collections.abc import Iterator

import pytest

from sundog import trust
from sundog.dashboard import scraping


class Figures:
    """Stands in for the exporter."""

    def text(self) -> bytes:
        return b"up 1\n"


@pytest.fixture
def server() -> Iterator[scraping.Server]:
    made = scraping.Server(socket.create_server(("127.0.0.1", 0)), Figures())  # type: ignore[arg-type]
    ends, end = os.pipe()
    thread = threading.Thread(target=scraping.serve, args=(made, ends))
    thread.start()
    yield made
    os.close(end)
    thread.join()
    os.close(ends)
    made.server_close()


def ask(server: scraping.Server, path: str, **headers: str) -> tuple[int, bytes]:
    client = http.client.HTTPConnection(*server.server_address[:2], timeout=120)  # type: ignore[arg-type]
    try:
        client.request("GET", path, headers=headers)
        answer = client.getresponse()
        return answer.status, answer.read()
    finally:
        client.close()


def test_this_user_reads_the_figures_and_pages_of_the_web_do_not(server: scraping.Server) -> None:
    assert ask(server, "/metrics") == (200, b"up 1\n")
    assert ask(server, "/metrics?x=1", Host="localhost:1")[0] == 200
    assert ask(server, "/metrics", Host="page.example")[0] == 403
    assert ask(server, "/")[0] == 404


def test_another_user_is_refused_before_anything_is_read(
    server: scraping.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trust, "connected_user", lambda _: os.geteuid() + 1)
    client = socket.create_connection(server.server_address[:2], timeout=120)  # type: ignore[arg-type]
    try:
        assert b"403" in client.recv(4096)
    finally:
        client.close()
    server.for_all = True
    assert ask(server, "/metrics") == (200, b"up 1\n")


def test_the_program_ends_when_nobody_asks(server: scraping.Server) -> None:
    ends, end = os.pipe()
    other = scraping.Server(socket.create_server(("127.0.0.1", 0)), Figures())  # type: ignore[arg-type]
    try:
        scraping.serve(other, ends, idle_s=0.01)
    finally:
        other.server_close()
        os.close(ends)
        os.close(end)
