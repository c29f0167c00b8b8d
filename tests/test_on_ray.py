"""What the tests on a Ray cluster stand on, as far as it needs no Ray."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from tests import on_ray


def test_no_port_is_given_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    ports = iter([50_001, 50_001, 50_002])

    class Socket:
        def __enter__(self) -> Socket:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def bind(self, address: object) -> None:
            pass

        def getsockname(self) -> tuple[str, Any]:
            return "127.0.0.1", next(ports)

    monkeypatch.setattr(on_ray, "_given", set())
    monkeypatch.setattr(socket, "socket", Socket)
    assert [on_ray.free_port(), on_ray.free_port()] == [50_001, 50_002]
