"""Parts of profiles on their way from the nodes to the session."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sundog.profiling import rows
from sundog.profiling.merge import table
from sundog.profiling.rows import Part, ProfileFrame, Samples, begin, write_part
from sundog.ray_engine import asks, process, profiles, shim
from sundog.wire.inspect import measure_everything, measured_of_all
from tests.ray_engine.fakes import FakeProcess
from tests.ray_engine.test_pushes import make_ring

NODES = ("aa" * 28, "bb" * 28)


def part(pid: int, seconds: float) -> Part:
    stack = (ProfileFrame("work", "job.py", 3),)
    return Part(pid, "worker", "there", Samples("cpu", 1, 0.0, 1.0, {("work", stack): (seconds, 1)}))


def test_parts_of_two_nodes_with_the_same_pid_are_one_profile(tmp_path: Path) -> None:
    for node, seconds in zip(NODES, (2.0, 3.0), strict=True):
        folder = tmp_path / node[:4]
        os.makedirs(folder / "profiles")
        begin(f"{folder}/profiles/p", "cpu", "all")
        write_part(f"{folder}/profiles/p", part(12, seconds))
        for _ in range(2):  # a sweep while the job runs, and one at its end
            profiles.keep(str(tmp_path), node, profiles.all_files(str(folder)))
    [found] = rows.profiles_of(str(tmp_path))
    assert [each.pid for each in found.parts] == [12, 12] and "work" in table(found) and "5.0" in table(found)


def test_a_node_profiles_the_workers_that_are_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def ask(ring: str, spec: Any) -> bool:
        asked.append(os.path.basename(ring))
        write_part(spec[4], part(7, 1.0))
        return True

    monkeypatch.setattr(asks, "ask", ask)
    for process_id, pid in (("aa" * 8, 7), ("bb" * 8, 8)):
        make_ring(tmp_path, process_id).close()
        facts = {"process": process_id, "pid": pid, "role": "worker"}
        (tmp_path / "rings" / f"{process_id}.ring.json").write_text(json.dumps(facts))
    (tmp_path / "profiles").mkdir()
    found = profiles.take(str(tmp_path), [7], "cpu", 100.0, 0.0, "p")
    assert asked == ["aa" * 8 + ".ring"] and set(found) == {"p/profile.json", "p/7.json"}
    assert not (tmp_path / "profiles" / "p").exists()


def square(n: int) -> int:
    return n * n


async def later(n: int) -> int:
    return n + 1


def test_a_function_with_the_option_runs_under_a_profiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import asyncio

    monkeypatch.setattr(process, "me", FakeProcess(str(tmp_path)))
    monkeypatch.setattr(profiles, "_made", {})
    (tmp_path / "profiles").mkdir()
    assert shim._measured(square, "square", "wall")(3) == 9
    assert asyncio.run(shim._measured(later, "later", "wall")(3)) == 4
    [found] = rows.profiles_of(str(tmp_path))
    assert found.kind == "wall" and found.id == "by-option-wall"


def test_a_profile_of_the_whole_program_goes_on_to_what_a_worker_submits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "me", FakeProcess(str(tmp_path)))
    monkeypatch.setattr(profiles, "_made", {})
    (tmp_path / "profiles").mkdir()
    try:
        made = profiles.profiler_of("*cpu:200", square)
        assert isinstance(made, profiles.Continuous) and profiles.profiler_of("*cpu:200", later) is made
        assert made.call(square, "square", (4,), {}) == 16 and measured_of_all() == "*cpu:200"
        made._sampler.stop()
        assert [each.id for each in rows.profiles_of(str(tmp_path))] == ["whole-program-cpu"]
        driver = profiles.of_driver(str(tmp_path))
        assert driver is not None
        driver.stop()
        [found] = rows.profiles_of(str(tmp_path))
        assert [each.role for each in found.parts] == [
            "driver"
        ]  # of the same pid here; on a cluster beside workers
    finally:
        measure_everything("")
    assert profiles.of_driver(str(tmp_path)) is None
