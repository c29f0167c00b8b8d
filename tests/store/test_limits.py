"""How large the store is by default."""

from __future__ import annotations

import os
from pathlib import Path

from sundog.config import Config
from sundog.store import limits


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_smallest_group_around_the_process_counts_in_both_versions(tmp_path: Path) -> None:
    proc, root = tmp_path / "cgroup", tmp_path / "sys"
    write(proc, "0::/outer/inner\n")
    write(root / "memory.max", "max\n")
    write(root / "outer/memory.max", "1000000\n")
    write(root / "outer/inner/memory.max", "5000000\n")
    assert limits.memory_bytes(str(proc), str(root)) == 1_000_000
    write(proc, "4:cpu,memory:/job\n1:name=systemd:/x\n")
    write(root / "memory/memory.limit_in_bytes", "9223372036854771712\n")
    write(root / "memory/job/memory.limit_in_bytes", "700000\n")
    assert limits.memory_bytes(str(proc), str(root)) == 700_000


def test_without_groups_it_is_the_machine(tmp_path: Path) -> None:
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert limits.memory_bytes(str(tmp_path / "none"), str(tmp_path)) == machine


def test_the_store_takes_its_share_but_no_more_than_shared_memory_holds(tmp_path: Path) -> None:
    assert limits.store_bytes(1000, Config(shm_dir=str(tmp_path))) == 300
    found = os.statvfs(tmp_path)
    most = found.f_blocks * found.f_frsize
    assert limits.store_bytes(1 << 62, Config(shm_dir=str(tmp_path))) == int(most * 0.95)
