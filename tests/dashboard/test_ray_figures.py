"""Ray's names: every figure that Ray's own board asks for is there, with its labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sundog.dashboard import ray_figures
from sundog.dashboard.facts import FactTail
from sundog.dashboard.figures import NodeReader
from tests.dashboard.test_figures import make_look

if TYPE_CHECKING:
    from sundog.wire.status import DriverRow

# What the default board of Ray 2.60 asks for, but for GPUs, TPUs and its autoscaler.
BOARD = [
    "ray_resources",
    "ray_tasks",
    "ray_node_disk_usage",
    "ray_object_store_memory",
    "ray_node_mem_total_host",
    "ray_node_mem_used_host",
    "ray_node_disk_free",
    "ray_node_cpu_utilization",
    "ray_node_cpu_count",
    "ray_actors",
    "ray_component_cpu_percentage",
    "ray_placement_groups",
    "ray_node_network_send_speed",
    "ray_node_network_receive_speed",
    "ray_node_mem_shared_bytes",
    "ray_node_manager_unexpected_worker_failure",
    "ray_node_disk_io_write_speed",
    "ray_node_disk_io_read_speed",
    "ray_memory_manager_worker_eviction",
    "ray_component_shared_bytes",
    "ray_component_rss_bytes",
]


def test_what_rays_board_asks_for_is_there_with_its_labels(tmp_path: object) -> None:
    look = make_look()
    look.node = NodeReader(str(tmp_path)).read()
    facts = FactTail(str(tmp_path))
    facts.out_of_memory["memory"] = 2
    found = {family.name: family for family in ray_figures.families(look, facts, "1.0")}
    # What no machine tells here (disks without counters) is left out by name.
    silent = (
        {"ray_node_disk_io_write_speed", "ray_node_disk_io_read_speed"}
        if "disk_read" not in look.node
        else set()
    )
    assert [name for name in BOARD if name not in found and name not in silent] == []
    [(labels, value)] = found["ray_tasks"].samples
    assert value == 1.0
    wanted = {
        "Name": "f",
        "State": "RUNNING",
        "IsRetry": "0",
        "Source": "executor",
        "SessionName": "session_x",
    }
    assert wanted.items() <= dict(labels).items()
    locations = {labels["Location"]: value for labels, value in found["ray_object_store_memory"].samples}
    assert locations == {"MMAP_SHM": 7.0, "SPILLED": 4.0}
    states = {(labels["Source"], labels["State"]): value for labels, value in found["ray_actors"].samples}
    assert states == {
        ("gcs", "ALIVE"): 1.0,
        ("executor", "ALIVE_RUNNING_TASKS"): 1.0,
        ("executor", "ALIVE_IDLE"): 0.0,
    }
    assert [labels["Component"] for labels, _ in found["ray_component_rss_bytes"].samples] == ["ray::A.m"]
    assert found["ray_memory_manager_worker_eviction"].samples[0][1] == 2.0


def test_figures_of_a_session_with_one_program_name_its_job(tmp_path: object) -> None:
    look, facts = make_look(), FactTail(str(tmp_path))
    for names, job in ((["01000000"], "01000000"), (["01", "02"], "")):
        drivers: list[DriverRow] = [{"pid": 1, "job_id": name, "entrypoint": ""} for name in names]
        look.status = {**look.status, "drivers": drivers}
        found = {family.name: family for family in ray_figures.families(look, facts, "1.0")}
        assert {labels["JobId"] for labels, _ in found["ray_tasks"].samples} == {job}


def test_attempts_after_the_first_are_told_apart() -> None:
    look = make_look()
    look.tasks = {("f", "FINISHED"): 5, ("g", "RUNNING"): 1}
    look.retries = {("f", "FINISHED"): 2, ("g", "RUNNING"): 1}
    [tasks] = [
        family
        for family in ray_figures.families(look, FactTail("/nowhere"), "1")
        if family.name == "ray_tasks"
    ]
    found = {(labels["Name"], labels["IsRetry"]): value for labels, value in tasks.samples}
    assert found == {("f", "0"): 3.0, ("f", "1"): 2.0, ("g", "1"): 1.0}
