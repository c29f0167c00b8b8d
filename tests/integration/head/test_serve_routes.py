"""Serve's REST interface on a real session: an application is put, answers, is replaced, refused, and removed."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.gates import await_true
from tests.integration.head.conftest import Head, start

PATH = "/api/serve/applications/"
APP = """
from sundog import serve

@serve.deployment
class Greeter:
    def __init__(self, word):
        self.word = word

    def __call__(self, request):
        return f"{self.word}, {request.query_params['name']}"

def build(args):
    return Greeter.bind(args["word"])
"""


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def _config(port: int, word: str) -> dict[str, Any]:
    return {
        "http_options": {"host": "127.0.0.1", "port": port},
        "applications": [
            {
                "name": "greeter",
                "route_prefix": "/greet",
                "import_path": "greeter_of_test:build",
                "args": {"word": word},
            }
        ],
    }


@pytest.fixture
def head(leak_check: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Head]:
    """A session whose programs can import the application."""
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "greeter_of_test.py").write_text(APP)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    made = start()
    yield made
    made.stop()


def test_an_application_is_put_and_removed_over_http(head: Head) -> None:
    port = _free_port()

    def put(word: str) -> httpx.Response:
        return head.client.put(PATH, json=_config(port, word), timeout=120)

    def said() -> str:
        try:
            return httpx.get(f"http://127.0.0.1:{port}/greet", params={"name": "Ada"}).text
        except httpx.TransportError:
            return ""

    first = put("hello")
    assert first.status_code == 200, first.text
    await_true(lambda: said() == "hello, Ada", "the application to answer")
    assert head.get(PATH)["applications"]["greeter"]["status"] in ("DEPLOYING", "RUNNING")
    assert put("good day").status_code == 200
    await_true(lambda: said() == "good day, Ada", "the new version to answer")
    refused = head.client.put(PATH, json={"applications": [{"name": "greeter"}]})
    assert refused.status_code == 400 and "import_path" in refused.text, refused.text
    assert head.client.put(PATH, content=b"not json").status_code == 400
    assert said() == "good day, Ada", "what was refused changes nothing"
    assert head.client.delete(PATH, timeout=120).status_code == 200
    assert head.get(PATH)["applications"] == {}
    await_true(lambda: said() != "good day, Ada", "the application to be gone")
