"""Cancelling tasks that somebody looks at: profiled ones, and those that leave a capsule."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sundog.exceptions import TaskTimeoutError
from tests.integration.cancelling import GET_S, assert_cancelled, make_runner
from tests.integration.gates import await_true


@pytest.mark.parametrize(
    "seen",
    [{"capsule": True}, *({"profile": kind} for kind in ("cpu", "wall", "line", "memory"))],
    ids=lambda seen: "-".join(map(str, seen.values())),
)
def test_a_task_that_is_profiled_or_captured_is_interrupted_like_any_other(
    ray: ModuleType, tmp_path: Path, seen: dict[str, Any]
) -> None:
    run = make_runner(ray, tmp_path).options(**seen)
    ref = run.remote("run")
    await_true((tmp_path / "run").exists, "the task")
    ray.cancel(ref)
    assert_cancelled(ray, ref)
    assert (tmp_path / "run-interrupted").exists()
    late = run.options(timeout_s=0.1).remote("late")
    with pytest.raises(TaskTimeoutError, match="It was interrupted"):
        ray.get(late, timeout=GET_S)
    assert (tmp_path / "late-interrupted").exists()
