"""What the kernel says of memory, read from folders made to look like its own, and from the kernel itself."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from sundog import machine

MB = 1 << 20


def v1(folder: Path, used: int, limit: int, cache: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.usage_in_bytes").write_text(f"{used}\n")
    (folder / "memory.limit_in_bytes").write_text(f"{limit}\n")
    (folder / "memory.stat").write_text(f"total_active_file {cache // 2}\ntotal_inactive_file {cache // 2}\n")


def v2(folder: Path, used: int, limit: str, cache: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.stat").write_text(f"anon 5\nactive_file {cache}\ninactive_file 0\nslab_reclaimable 0\n")


def member(tmp_path: Path, lines: str) -> list[machine.MemoryGroup]:
    (tmp_path / "membership").write_text(lines)
    return machine.groups(str(tmp_path / "membership"), str(tmp_path))


def test_page_cache_is_not_in_use() -> None:
    reading = machine.read_machine()
    assert 0 < reading.used_bytes < reading.total_bytes
    assert reading.total_bytes == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_a_v1_group_and_those_around_it_count_what_cannot_be_reclaimed(tmp_path: Path) -> None:
    v1(tmp_path / "memory", 900 * MB, 1 << 62)
    v1(tmp_path / "memory/outer", 800 * MB, 1000 * MB, cache=100 * MB)
    v1(tmp_path / "memory/outer/inner", 100 * MB, 400 * MB, cache=50 * MB)
    found = member(tmp_path, "4:cpu:/x\n3:memory:/outer/inner\n0::/\n")
    assert [group.path for group in found] == [
        f"{tmp_path}/memory/outer/inner",
        f"{tmp_path}/memory/outer",
        f"{tmp_path}/memory",
    ]
    reading = machine.read(found)
    assert (reading.used_bytes, reading.total_bytes) == (700 * MB, 1000 * MB), "the tightest is the outer one"
    assert reading.where == f"the control group {tmp_path}/memory/outer"


def test_a_v2_group_without_a_limit_is_passed_over(tmp_path: Path) -> None:
    v2(tmp_path / "slice", 90 * MB, "100000000", cache=10 * MB)
    v2(tmp_path / "slice/unit", 90 * MB, "max")
    found = member(tmp_path, "0::/slice/unit\n")
    assert [group.limit_bytes() for group in found] == [None, 100_000_000]
    assert machine.read(found).used_bytes == 80 * MB


def test_inside_a_container_the_group_is_found_at_the_root_of_the_mount(tmp_path: Path) -> None:
    v2(tmp_path, 10, "100")
    (group,) = member(tmp_path, "0::/docker/0123\n")
    assert (group.path, group.version) == (str(tmp_path), 2)


def test_a_limit_above_the_machines_memory_is_none(tmp_path: Path) -> None:
    v2(tmp_path, 10**15 - 1, str(10**15))
    assert machine.read(member(tmp_path, "0::/\n")).where == "this machine"


def test_own_memory_has_no_shared_segments_in_it(tmp_path: Path) -> None:
    import mmap

    before = machine.own_bytes(os.getpid())
    shared = mmap.mmap(-1, 64 * MB)  # shared and anonymous: a segment without a name
    shared.write(b"\1" * (64 * MB))
    with_shared = machine.own_bytes(os.getpid())
    private = bytearray(b"\1") * (64 * MB)
    with_private = machine.own_bytes(os.getpid())
    assert with_shared - before < 32 * MB
    assert with_private - with_shared > 32 * MB
    del private
    shared.close()


def test_a_process_that_is_gone_has_nothing() -> None:
    assert machine.own_bytes(2**22 + 1) == 0
    assert machine.title(2**22 + 1) == ""
    assert not machine.is_stopped(2**22 + 1)
    assert not machine.wants_processor(2**22 + 1)
    assert machine.processor_seconds(2**22 + 1) == 0.0


def test_the_time_of_a_process_is_what_the_system_counts_for_it() -> None:
    before = machine.processor_seconds(os.getpid())
    while time.process_time() < before + 0.1:
        pass
    assert machine.processor_seconds(os.getpid()) > before


def test_a_process_that_runs_wants_a_processor_and_one_that_waits_does_not() -> None:
    assert machine.wants_processor(os.getpid())
    with subprocess.Popen([sys.executable, "-c", "print(flush=True); input()"], stdin=-1, stdout=-1) as child:
        assert child.stdout is not None and child.stdout.read(1)
        while machine.wants_processor(child.pid):  # until it reads
            pass
        child.kill()


def test_launchers_label_a_node_by_variables() -> None:
    given = {
        "RAY_NODE_MARKET_TYPE": "spot",
        "RAY_NODE_TYPE_NAME": "small",
        "RAY_NODE_REGION": "eu",
        "OTHER": "x",
    }
    assert machine.labels(given) == {
        "ray.io/market-type": "spot",
        "ray.io/node-group": "small",
        "ray.io/availability-region": "eu",
    }
