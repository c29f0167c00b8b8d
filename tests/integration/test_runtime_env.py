"""Runtime environments: variables, folders, inheritance, reuse of workers, failing setups."""

# mypy: disable-error-code="untyped-decorator"
# `ray` is whichever module the fixture gives, so its decorator has no type.
from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.integration import drivers

Start = Callable[..., ModuleType]


def fail_to_set_up() -> None:
    """A hook for workers that cannot work."""
    raise OSError("no licence server")


BROKEN = {"worker_process_setup_hook": fail_to_set_up}


def test_variables_of_a_task_are_its_own(ray: ModuleType) -> None:
    @ray.remote
    def read() -> str | None:
        return os.environ.get("COLOUR")

    red = read.options(runtime_env={"env_vars": {"COLOUR": "red"}})
    blue = read.options(runtime_env={"env_vars": {"COLOUR": "blue"}})
    assert ray.get([red.remote(), blue.remote(), read.remote()], timeout=120) == ["red", "blue", None]
    assert "COLOUR" not in os.environ


def test_variables_of_an_actor_last_its_life(ray: ModuleType) -> None:
    @ray.remote(runtime_env={"env_vars": {"COLOUR": "green"}})
    class Actor:
        def __init__(self) -> None:
            self.first = os.environ["COLOUR"]

        def read(self) -> tuple[str, str]:
            return self.first, os.environ["COLOUR"]

    assert ray.get(Actor.remote().read.remote(), timeout=120) == ("green", "green")


def test_variables_of_the_job_reach_every_task_and_actor(ray_session: Start) -> None:
    ray = ray_session(num_cpus=2, runtime_env={"env_vars": {"COLOUR": "job", "SIZE": "1"}})

    @ray.remote
    def read() -> tuple[str | None, str | None]:
        return os.environ.get("COLOUR"), os.environ.get("SIZE")

    @ray.remote
    class Actor:
        def read(self) -> str:
            return os.environ["COLOUR"]

    assert ray.get(read.remote(), timeout=120) == ("job", "1")
    assert ray.get(Actor.remote().read.remote(), timeout=120) == "job"
    # A task's own variables are merged over the job's.
    merged = read.options(runtime_env={"env_vars": {"COLOUR": "own"}})
    assert ray.get(merged.remote(), timeout=120) == ("own", "1")


def test_child_tasks_inherit_the_environment(ray: ModuleType) -> None:
    @ray.remote
    def read() -> tuple[str | None, str | None]:
        return os.environ.get("COLOUR"), os.environ.get("SIZE")

    @ray.remote(runtime_env={"env_vars": {"COLOUR": "parent", "SIZE": "1"}})
    def parent(own: dict[str, Any] | None) -> Any:
        child = read.options(runtime_env=own) if own else read
        return ray.get(child.remote())

    assert ray.get(parent.remote(None), timeout=120) == ("parent", "1")
    assert ray.get(parent.remote({"env_vars": {"SIZE": "2"}}), timeout=120) == ("parent", "2")


def test_a_variable_may_refer_to_another(ray: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    @ray.remote(runtime_env={"env_vars": {"PATH": "/extra:${PATH}"}})
    def read() -> str:
        return os.environ["PATH"]

    found = ray.get(read.remote(), timeout=120)
    assert found.startswith("/extra:") and len(found) > len("/extra:")


def test_workers_are_shared_by_equal_environments_only(ray_session: Start) -> None:
    ray = ray_session(num_cpus=1)

    @ray.remote
    def pid() -> int:
        return os.getpid()

    def with_colour(colour: str) -> int:
        found: int = ray.get(pid.options(runtime_env={"env_vars": {"C": colour}}).remote(), timeout=120)
        return found

    red, blue, plain = with_colour("red"), with_colour("blue"), ray.get(pid.remote(), timeout=120)
    assert len({red, blue, plain}) == 3
    assert (with_colour("red"), with_colour("blue")) == (red, blue)


def test_a_working_dir_is_where_tasks_run_and_import(ray: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("hello")
    (tmp_path / "shipped_module.py").write_text("VALUE = 42\n")

    @ray.remote(runtime_env={"working_dir": str(tmp_path)})
    def read() -> tuple[str, int]:
        import shipped_module  # type: ignore[import-not-found]

        return Path("data.txt").read_text(), shipped_module.VALUE

    assert ray.get(read.remote(), timeout=120) == ("hello", 42)
    (tmp_path / "data.txt").write_text("changed")
    # What was copied when the function was bound stays as it was.
    assert ray.get(read.remote(), timeout=120)[0] == "hello"


def test_a_working_dir_of_the_job(ray_session: Start, tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("job")
    ray = ray_session(num_cpus=1, runtime_env={"working_dir": str(tmp_path)})

    @ray.remote
    def read() -> str:
        return Path("data.txt").read_text()

    assert ray.get(read.remote(), timeout=120) == "job"


def test_py_modules_can_be_imported(ray: ModuleType, tmp_path: Path) -> None:
    package = tmp_path / "shipped_package"
    package.mkdir()
    (package / "__init__.py").write_text("VALUE = 7\n")

    @ray.remote(runtime_env={"py_modules": [str(package)]})
    def read() -> int:
        import shipped_package  # type: ignore[import-not-found]

        return int(shipped_package.VALUE)

    assert ray.get(read.remote(), timeout=120) == 7


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"env_vars": {"A": 1}}, TypeError),
        ({"env_vars": ["A"]}, TypeError),
        ({"working_dir": "/no/such/folder"}, ValueError),
        ({"colour": "red"}, ValueError),
    ],
)
def test_wrong_environments_are_refused(ray: ModuleType, wrong: dict[str, Any], error: Any) -> None:
    @ray.remote
    def one() -> int:
        return 1

    with pytest.raises((error, ray.exceptions.RuntimeEnvSetupError)):
        ray.get(one.options(runtime_env=wrong).remote(), timeout=120)
    assert ray.get(one.remote(), timeout=120) == 1


def test_a_failing_setup_reaches_the_get_of_every_waiting_task(ray: ModuleType) -> None:
    @ray.remote(runtime_env=BROKEN)
    def broken(x: int) -> int:
        return x

    @ray.remote
    def fine() -> int:
        return 1

    refs = [broken.remote(i) for i in range(10)]
    for ref in refs:
        with pytest.raises(ray.exceptions.RuntimeEnvSetupError, match="licence server"):
            ray.get(ref, timeout=120)
    with pytest.raises(ray.exceptions.RuntimeEnvSetupError, match="licence server"):
        ray.get(broken.remote(1), timeout=120)
    assert ray.get(fine.remote(), timeout=120) == 1
    drivers.await_true(lambda: ray.available_resources()["CPU"] == 4, "the return of all resources")


def test_a_failing_setup_reaches_the_calls_of_actors(ray: ModuleType) -> None:
    @ray.remote(runtime_env=BROKEN, max_restarts=2)
    class Broken:
        def hello(self) -> int:
            return 1

    actors = [Broken.remote() for _ in range(3)]
    refs = [actor.hello.remote() for actor in actors]
    for ref in refs:
        with pytest.raises(ray.exceptions.RuntimeEnvSetupError, match="licence server"):
            ray.get(ref, timeout=120)
    late = Broken.remote()
    with pytest.raises(ray.exceptions.RuntimeEnvSetupError):
        ray.get(late.hello.remote(), timeout=120)


def test_a_failing_setup_reaches_workers_that_submit(ray: ModuleType) -> None:
    @ray.remote
    def broken() -> int:
        return 1

    @ray.remote
    class Broken:
        def hello(self) -> int:
            return 1

    @ray.remote
    def outer() -> list[str]:
        found = []
        task = broken.options(runtime_env=BROKEN).remote()
        actor = Broken.options(runtime_env=BROKEN).remote()
        for ref in (task, actor.hello.remote()):
            try:
                ray.get(ref, timeout=120)
            except ray.exceptions.RuntimeEnvSetupError:
                found.append("refused")
        return found

    assert ray.get(outer.remote(), timeout=120) == ["refused", "refused"]


def test_a_failing_setup_of_the_job_fails_its_tasks(ray_session: Start) -> None:
    ray = ray_session(num_cpus=1, runtime_env=BROKEN)

    @ray.remote
    def one() -> int:
        return 1

    with pytest.raises(ray.exceptions.RuntimeEnvSetupError, match="licence server"):
        ray.get(one.remote(), timeout=120)


def test_a_setup_hook_prepares_every_worker(ray: ModuleType) -> None:
    def hook() -> None:
        os.environ["PREPARED"] = "yes"

    @ray.remote(runtime_env={"worker_process_setup_hook": hook})
    def read() -> str | None:
        return os.environ.get("PREPARED")

    assert ray.get([read.remote() for _ in range(4)], timeout=120) == ["yes"] * 4


def test_the_runtime_context_shows_the_environment(ray: ModuleType) -> None:
    @ray.remote(runtime_env={"env_vars": {"COLOUR": "red"}})
    def read() -> Any:
        return dict(ray.get_runtime_context().runtime_env)

    assert ray.get(read.remote(), timeout=120)["env_vars"] == {"COLOUR": "red"}
