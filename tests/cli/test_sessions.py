"""Commands that need processes of sundog, on a job that runs on a Ray cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result

from sundog.ray_engine.desk import Desk

Run = Callable[..., Result]


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "session_2026-01-01_00-00-00_1_abcdef01"
    (folder / "rings").mkdir(parents=True)
    (folder / ".sundog").symlink_to(folder.name)  # the mark of a session
    (folder / "session.json").write_text(json.dumps({"engine": "ray", "driver_pid": 1, "job": "01000000"}))
    desk = Desk(str(folder), {})
    yield folder
    desk.close()


def test_a_job_on_a_ray_cluster_is_not_said_to_have_ended(sundog: Run, job: Path) -> None:
    done = sundog("memory", "--session", str(job))
    assert done.exit_code != 0
    assert "is a job on a Ray cluster" in done.output and "has ended" not in done.output


@pytest.mark.parametrize("what", [(), ("task", "ab" * 16)])
def test_logs_of_a_job_on_a_ray_cluster_are_said_to_be_rays(
    sundog: Run, job: Path, what: tuple[str, ...]
) -> None:
    done = sundog("logs", *what, "--session", str(job))
    assert done.exit_code != 0 and "where Ray keeps the logs" in done.output
