"""Process titles: every process of a session says what it is, a worker what it runs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pytest

from sundog.system.orphans import descendants
from tests.integration import drivers
from tests.integration.gates import Gate, await_true

Start = Callable[..., ModuleType]


def title(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").decode()


def own_title() -> str:
    return title(os.getpid())


def test_every_process_is_named(ray_session: Start) -> None:
    ray = ray_session(num_cpus=2)
    ray.get(ray.remote(os.getpid).remote())
    node = drivers.node_pid(os.getpid())
    await_true(lambda: title(node) == "sundog::node", "the node's title")
    await_true(
        lambda: sorted({title(pid) for pid in descendants(node)}) == ["sundog::IDLE", "sundog::zygote"],
        "the titles of zygote and workers",
    )


def test_a_task_is_named_while_it_runs_and_its_worker_is_idle_after_it(ray_session: Start) -> None:
    ray = ray_session(num_cpus=1)

    def first() -> tuple[int, str]:
        return os.getpid(), own_title()

    pid, shown = ray.get(ray.remote(first).remote(), timeout=120)
    assert shown.startswith("sundog::") and shown.endswith("first")
    assert Path(f"/proc/{pid}/comm").read_text().startswith("sundog::")
    named = ray.remote(first).options(name="resize 7")
    await_true(lambda: ray.get(named.remote(), timeout=120)[1] == "sundog::resize 7", "the name of the task")
    await_true(lambda: title(pid) == "sundog::IDLE", "the title of an idle worker")


def test_a_long_task_right_behind_a_short_one_is_named(ray_session: Start, tmp_path: Path) -> None:
    ray = ray_session(num_cpus=1)
    gate = Gate(tmp_path)

    @ray.remote
    def short() -> None: ...

    @ray.remote
    def long() -> None:
        gate.enter()

    pid = ray.get(ray.remote(os.getpid).remote(), timeout=120)
    refs = [short.remote() for _ in range(20)]
    last = long.remote()
    ray.get(refs, timeout=120)
    await_true(lambda: title(pid).endswith("long"), "the name of the task that runs")
    gate.open()
    ray.get(last, timeout=120)


def test_an_actor_is_named_after_its_class_and_the_method_that_runs(ray_session: Start) -> None:
    ray = ray_session(num_cpus=1)

    @ray.remote
    class Counter:
        def __init__(self) -> None:
            await_true(lambda: own_title() == "sundog::Counter.__init__", "the constructor's name")

        def look(self) -> tuple[int, str]:
            return os.getpid(), own_title()

    counter = Counter.remote()
    pid, running = ray.get(counter.look.remote(), timeout=120)
    await_true(
        lambda: ray.get(counter.look.remote(), timeout=120)[1] == "sundog::Counter.look",
        f"the method's name; it was {running!r}",
    )
    await_true(lambda: title(pid) == "sundog::Counter", "the title of an idle actor")


@pytest.mark.parametrize("name", ["a\nb", "\x1b[2J", "\u202e", "x" * 5000, "é"])
def test_odd_names_are_shown_on_one_line_and_harm_nothing(ray_session: Start, name: str) -> None:
    ray = ray_session(num_cpus=1)

    def look() -> Any:
        return own_title(), Path("/proc/self/environ").read_bytes()

    shown, environ = ray.get(ray.remote(look).options(name=name).remote(), timeout=120)
    assert shown.startswith("sundog::") and shown.isprintable()
    assert b"SUNDOG_temp_dir" in environ, (
        "the library that sets titles writes over the environment by default"
    )


def test_the_users_environment_does_not_show_how_titles_are_set(ray_session: Start) -> None:
    ray = ray_session(num_cpus=1)
    names = ray.get(ray.remote(lambda: dict(os.environ)).remote(), timeout=120)
    assert "SPT_NOENV" not in names
    assert psutil.Process(drivers.node_pid(os.getpid())).is_running()
