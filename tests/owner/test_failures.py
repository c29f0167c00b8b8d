"""Failures in the words of the state API."""

from __future__ import annotations

from typing import Any

import pytest

from sundog import exceptions
from sundog.owner.failures import error_type, note_error


def of_task(cause: BaseException) -> exceptions.RayTaskError:
    return exceptions.RayTaskError.from_exception(
        cause, function_name="f", pid=1, task_id="00", skip_frames_of=()
    )


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (of_task(ValueError("x")), "TASK_EXECUTION_EXCEPTION"),
        (of_task(exceptions.TaskCancelledError("x")), "TASK_EXECUTION_EXCEPTION"),
        (exceptions.TaskCancelledError("x"), "TASK_CANCELLED"),
        (exceptions.WorkerCrashedError("x"), "WORKER_DIED"),
        (exceptions.OutOfMemoryError("x"), "OUT_OF_MEMORY"),
        (exceptions.ActorUnavailableError("x"), "ACTOR_UNAVAILABLE"),
        (exceptions.ActorDiedError("x"), "ACTOR_DIED"),
        (exceptions.OwnerDiedError("x"), "OWNER_DIED"),
        (exceptions.ObjectLostError("x"), "OBJECT_LOST"),
        (exceptions.RuntimeEnvSetupError("x"), "RUNTIME_ENV_SETUP_FAILED"),
        (None, "TASK_EXECUTION_EXCEPTION"),
    ],
)
def test_an_error_has_rays_name_for_its_type(error: object, name: str) -> None:
    assert error_type(error) == name


def test_an_error_whose_text_fails_is_noted_by_its_class() -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    noted: list[dict[str, Any]] = []

    class Ring:
        def note(self, kind: str, /, **facts: Any) -> None:
            noted.append(facts)

    note_error(Ring(), b"\x01", 2, Broken())  # type: ignore[arg-type]
    assert (noted[0]["task"], noted[0]["attempt"], noted[0]["message"]) == ("01", 2, "Broken")
