"""A worker that is asked to profile itself."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from sundog.ray_engine import asks


def test_what_is_written_into_the_pipe_is_begun_in_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Any] = []
    both = threading.Event()

    def begin(spec: Any) -> None:
        begun.append(spec)
        if spec == ["bad"]:
            raise ValueError(spec)
        if spec == ["last"]:
            both.set()

    monkeypatch.setattr(asks, "_begin", begin)
    ring = str(tmp_path / "a.ring")
    path = f"{ring}.ask"
    os.mkfifo(path)
    pipe = os.open(path, os.O_RDWR)
    thread = threading.Thread(target=asks._listen, args=(pipe,), daemon=True)
    thread.start()
    assert asks.ask(ring, ["bad"]) and asks.ask(ring, ["last"])
    assert both.wait(120) and begun == [["bad"], ["last"]]
    assert asks.ask(ring, asks.END)
    thread.join(120)
    assert not thread.is_alive()


def test_a_worker_that_is_gone_is_not_asked(tmp_path: Path) -> None:
    assert not asks.ask(str(tmp_path / "gone.ring"), ["x"])
