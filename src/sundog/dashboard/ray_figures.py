"""The same figures under the names and labels that Ray's exporter uses, so that boards made for Ray work.

Owns which of Ray's names are given, and what stands for them here. GPUs and TPUs are left out.
Each attempt of a task counts. Pure: a look in, families out.
"""

from __future__ import annotations

from collections import Counter

from sundog.dashboard.facts import FactTail
from sundog.dashboard.figures import MetricFamily, ProcessFigures, SessionLook

_MEGABYTE = 1e6
_NODE_IP = "127.0.0.1"
# Ray's name, where the figure is found in a look at the machine, and by what it is multiplied.
_NODE = (
    ("ray_node_cpu_utilization", "cpu_share", 100.0, "Busy share of all cores, in percent"),
    ("ray_node_cpu_count", "cpus", 1.0, "Cores of the machine"),
    ("ray_node_mem_used", "memory_used", 1.0, "Memory in use, bytes"),
    ("ray_node_mem_total", "memory_total", 1.0, "Memory in all, bytes"),
    ("ray_node_mem_used_host", "memory_used_host", 1.0, "Memory in use on the host, bytes"),
    ("ray_node_mem_total_host", "memory_total_host", 1.0, "Memory of the host, bytes"),
    ("ray_node_mem_shared_bytes", "memory_shared", 1.0, "Shared memory, bytes"),
    ("ray_node_swap_used", "swap_used", 1.0, "Swap in use, bytes"),
    ("ray_node_swap_total", "swap_total", 1.0, "Swap in all, bytes"),
    ("ray_node_disk_usage", "disk_used", 1.0, "Disk in use, bytes"),
    ("ray_node_disk_free", "disk_free", 1.0, "Disk free, bytes"),
    ("ray_node_network_sent", "network_sent", 1.0, "Bytes sent so far"),
    ("ray_node_network_received", "network_received", 1.0, "Bytes received so far"),
    ("ray_node_network_send_speed", "network_sent_speed", 1.0, "Bytes sent in a second"),
    ("ray_node_network_receive_speed", "network_received_speed", 1.0, "Bytes received in a second"),
    ("ray_node_disk_io_write", "disk_written", 1.0, "Bytes written so far"),
    ("ray_node_disk_io_read", "disk_read", 1.0, "Bytes read so far"),
    ("ray_node_disk_io_write_speed", "disk_written_speed", 1.0, "Bytes written in a second"),
    ("ray_node_disk_io_read_speed", "disk_read_speed", 1.0, "Bytes read in a second"),
)


def families(look: SessionLook, facts: FactTail, version: str) -> list[MetricFamily]:
    """Everything of one look, under Ray's names."""
    node = {
        "SessionName": look.name,
        "ip": _NODE_IP,
        "NodeAddress": _NODE_IP,
        "IsHeadNode": "true",
        "RayNodeType": "head",
        "Version": version,
    }
    session = {"SessionName": look.name, "NodeAddress": _NODE_IP, "Version": version}
    found = [
        *_machine(look, node),
        *_components(look, node),
        *_tasks(look, session),
        *_deaths(facts, session),
    ]
    if look.status:
        found += [*_resources(look, session), *_store(look, session), *_scheduler(look, session)]
    return found


def _machine(look: SessionLook, labels: dict[str, str]) -> list[MetricFamily]:
    found = []
    for name, key, factor, help_ in _NODE:
        if key in look.node:
            family = MetricFamily(name, "gauge", help_)
            family.add(look.node[key] * factor, **labels)
            found.append(family)
    if look.node:
        total, used = look.node["memory_total"], look.node["memory_used"]
        available = MetricFamily("ray_node_mem_available", "gauge", "Memory available, bytes")
        available.add(total - used, **labels)
        found.append(available)
        if total < look.node["memory_total_host"]:  # a control group has less than the machine
            for name, value in (("ray_node_cgroup_mem_used", used), ("ray_node_cgroup_mem_total", total)):
                family = MetricFamily(name, "gauge", "Memory of the control group, bytes")
                family.add(value, **labels)
                found.append(family)
        nodes = MetricFamily("ray_cluster_active_nodes", "gauge", "Nodes that live")
        nodes.add(1, node_type="head", SessionName=look.name)
        found.append(nodes)
    return found


def _component(each: ProcessFigures) -> str:
    if each.who.kind == "node":
        return "raylet"
    if each.who.kind == "driver":
        return "driver"
    return f"ray::{each.runs or 'IDLE'}"


def _components(look: SessionLook, labels: dict[str, str]) -> list[MetricFamily]:
    cpu = MetricFamily(
        "ray_component_cpu_percentage", "gauge", "Processor use of a process, percent of one core"
    )
    rss = MetricFamily("ray_component_rss_bytes", "gauge", "Resident memory of a process")
    shared = MetricFamily("ray_component_shared_bytes", "gauge", "Shared memory of a process")
    own = MetricFamily("ray_component_uss_bytes", "gauge", "Memory of a process that no other process shares")
    rss_mb = MetricFamily("ray_component_rss_mb", "gauge", "Resident memory of a process, megabytes")
    for each in look.processes:
        more = {**labels, "Component": _component(each), "pid": str(each.who.pid)}
        cpu.add(100.0 * each.core_share, **more)
        rss.add(each.rss_bytes, **more)
        shared.add(max(0, each.rss_bytes - each.own_bytes), **more)
        own.add(each.own_bytes, **more)
        rss_mb.add(each.rss_bytes / _MEGABYTE, **more)
    return [cpu, rss, shared, own, rss_mb] if look.processes else []


def _only_job(look: SessionLook) -> str:
    """The job that all figures are of; "" if there are several: totals are kept by function, not by job.

    The head process and commands are no drivers, so a session with one program has one.
    """
    drivers = look.status.get("drivers", [])
    return drivers[0]["job_id"] if len(drivers) == 1 else ""


def _tasks(look: SessionLook, labels: dict[str, str]) -> list[MetricFamily]:
    job = _only_job(look)
    tasks = MetricFamily("ray_tasks", "gauge", "Tasks by state")
    for (name, state), count in look.tasks.items():
        source = "executor" if state == "RUNNING" else "owner"
        again = min(count, look.retries.get((name, state), 0))
        for number, is_retry in ((count - again, "0"), (again, "1")):
            if number:
                tasks.add(
                    number, **labels, Name=name, State=state, IsRetry=is_retry, Source=source, JobId=job
                )
    actors = MetricFamily("ray_actors", "gauge", "Actors by state")
    for (name, state), count in look.actors.items():
        actors.add(count, **labels, Name=name, State=state, Source="gcs", JobId=job)
    for name, count in Counter(
        each.who.actor_class for each in look.processes if each.who.actor_class
    ).items():
        busy = sum(
            1 for each in look.processes if each.who.actor_class == name and each.runs.startswith(f"{name}.")
        )
        for state, number in (("ALIVE_RUNNING_TASKS", busy), ("ALIVE_IDLE", count - busy)):
            actors.add(number, **labels, Name=name, State=state, Source="executor", JobId=job)
    groups = MetricFamily("ray_placement_groups", "gauge", "Placement groups by state")
    for state, count in look.groups.items():
        groups.add(count, **labels, State=state, Source="gcs")
    return [tasks, actors, groups]


def _resources(look: SessionLook, labels: dict[str, str]) -> list[MetricFamily]:
    resources = MetricFamily("ray_resources", "gauge", "Logical resources by state")
    total, free = look.status["resources"]["total"], look.status["resources"]["available"]
    for name, amount in total.items():
        left = free.get(name, 0.0)
        resources.add(left, **labels, Name=name, State="AVAILABLE")
        resources.add(amount - left, **labels, Name=name, State="USED")
    return [resources]


def _store(look: SessionLook, labels: dict[str, str]) -> list[MetricFamily]:
    store = look.status["store"]
    memory = MetricFamily("ray_object_store_memory", "gauge", "Objects by where they are, bytes")
    memory.add(store["used_bytes"], **labels, Location="MMAP_SHM", ObjectState="SEALED")
    memory.add(store["spilled_bytes"], **labels, Location="SPILLED", ObjectState="")
    plain = (
        ("ray_object_store_available_memory", max(0, store["limit_bytes"] - store["used_bytes"])),
        ("ray_object_store_used_memory", store["used_bytes"]),
        ("ray_object_store_num_local_objects", store["segments"]),
    )
    found = [memory]
    for name, value in plain:
        family = MetricFamily(name, "gauge", "Of the object store")
        family.add(value, **labels)
        found.append(family)
    spill = MetricFamily("ray_spill_manager_objects_bytes", "gauge", "Bytes of spilled objects")
    spill.add(store["spilled_bytes"], **labels, State="Spilled")
    return [*found, spill]


def _scheduler(look: SessionLook, labels: dict[str, str]) -> list[MetricFamily]:
    """What waits for a worker. Waiting for arguments is the owners' matter: the look at tasks has it."""
    status, reasons = look.status, Counter[str]()
    for each in status["pending"]:
        starting = each["why"] == "worker starting"
        reason = "WaitingForWorkers" if starting else "WaitingForResources"
        reasons["Infeasible" if each["infeasible"] else reason] += each["count"]
    waiting = sum(count for (_, state), count in look.tasks.items() if state == "PENDING_ARGS_AVAIL")
    states = {
        "Executing": status["leases"],
        "Waiting": waiting,
        "Dispatched": reasons["WaitingForResources"] + reasons["WaitingForWorkers"],
        "Received": reasons["Infeasible"],
        "Cancelled": 0,
    }
    tasks = MetricFamily("ray_scheduler_tasks", "gauge", "Requests for workers by state")
    for state, count in states.items():
        tasks.add(count, **labels, State=state)
    stuck = MetricFamily("ray_scheduler_unscheduleable_tasks", "gauge", "Requests that wait, by reason")
    for reason in ("Infeasible", "WaitingForResources", "WaitingForWorkers"):
        stuck.add(reasons[reason], **labels, Reason=reason)
    classes = MetricFamily(
        "ray_internal_num_infeasible_scheduling_classes", "gauge", "Kinds of requests that fit no node"
    )
    classes.add(look.infeasible_kinds, **labels)
    return [tasks, stuck, classes]


def _deaths(facts: FactTail, labels: dict[str, str]) -> list[MetricFamily]:
    evicted = MetricFamily(
        "ray_memory_manager_worker_eviction", "counter", "Workers ended because memory ran short"
    )
    for cause, count in facts.out_of_memory.items():
        evicted.add(count, **labels, Type="MemoryManager", Name=cause)
    failed = MetricFamily(
        "ray_node_manager_unexpected_worker_failure",
        "counter",
        "Workers that died unexpectedly",
    )
    failed.add(facts.deaths_by_type["SYSTEM_ERROR"], **labels, Type="SYSTEM_ERROR", Name="worker")
    return [evicted, failed]
