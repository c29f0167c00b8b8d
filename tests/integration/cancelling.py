"""What tests of cancelling share: a task that says what becomes of it, and the proof that one was cancelled."""

from __future__ import annotations

import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sundog.exceptions import TaskCancelledError

GET_S = 120
LONG_S = 600  # longer than any test may take: what is cancelled shows by not lasting that long


def make_runner(ray: ModuleType, folder: Path, **options: Any) -> Any:
    """A task that says when it begins and when it is interrupted, and runs as it is told."""

    def run(name: str, how: str = "sleep") -> str:
        try:
            (folder / name).touch()
            if how == "sleep":
                time.sleep(LONG_S)
            else:
                deadline = time.monotonic() + LONG_S
                while time.monotonic() < deadline:
                    sum(range(1000))
        except KeyboardInterrupt:
            (folder / f"{name}-interrupted").touch()
            raise
        return name

    return ray.remote(**options)(run) if options else ray.remote(run)


def assert_cancelled(ray: ModuleType, ref: Any) -> None:
    with pytest.raises(TaskCancelledError) as caught:
        ray.get(ref, timeout=GET_S)
    assert caught.value.task_id == ref.task_id().hex()
