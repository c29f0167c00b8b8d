"""File systems of the chaos that are filled: none but its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.chaos import fullness
from tests.integration import small_disks


def test_a_file_system_that_is_not_the_chaos_own_is_not_filled(tmp_path: Path) -> None:
    assert not fullness.fill(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_small_file_system_is_filled_to_its_last_byte_and_emptied_again(tmp_path: Path) -> None:
    small_disks.needs_mounts()
    program = """
import os, sys
from tests.chaos import fullness
for name in ("SUNDOG_temp_dir", "SUNDOG_shm_dir"):
    folder = os.environ[name]
    assert fullness.fill(folder)
    assert os.statvfs(folder).f_bavail == 0
    fullness.make_room(folder)
    assert os.listdir(folder) == []
"""
    command, places = fullness.enclosed([sys.executable, "-c", program], str(tmp_path))
    root = str(Path(__file__).parents[2])
    subprocess.run(command, cwd=root, env={**os.environ, "PYTHONPATH": root, **places}, check=True)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["small-disk", "small-memory"]
