"""A plain session's figures: the port opens when somebody asks, the program starts with the first reader."""

# mypy: disable-error-code="untyped-decorator"
# `ray` is whichever module the fixture gives, so its decorator has no type.
from __future__ import annotations

import os
import signal
import socket
import urllib.request
from collections.abc import Callable
from types import ModuleType

import psutil
from prometheus_client.parser import text_string_to_metric_families

import sundog
from tests.integration import strangers
from tests.integration.gates import await_true

Start = Callable[..., ModuleType]


def read(port: int) -> dict[str, list[tuple[dict[str, str], float]]]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=120) as answer:
        text = answer.read().decode()
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def programs() -> list[int]:
    """The programs for figures among this process's descendants."""
    found = []
    for each in psutil.Process().children(recursive=True):
        try:
            words = " ".join(each.cmdline())
            if "sundog::metrics" in words or "dashboard.scraping" in words:
                found.append(each.pid)
        except psutil.Error:
            continue
    return found


def test_a_plain_session_answers_with_rays_figures_and_starts_nothing_before() -> None:
    with sundog.init(num_cpus=1) as context:
        port = context.address_info["metrics_export_port"]
        assert port == sundog.nodes()[0]["MetricsExportPort"] == context["metrics_export_port"]
        assert programs() == []

        @sundog.remote(num_cpus=1000)
        def too_much() -> None: ...

        waits = too_much.remote()
        await_true(lambda: _infeasible(port) == 1, "the request counts as infeasible")
        found = read(port)
        tasks = {labels["State"]: value for labels, value in found["ray_scheduler_tasks"]}
        assert (tasks["Dispatched"], tasks["Received"]) == (0, 1)
        assert found["sundog_up"] == [({}, 1.0)]
        [first] = programs()
        os.kill(first, signal.SIGKILL)
        assert read(port)["sundog_up"] == [({}, 1.0)]  # the node starts it again; connections wait meanwhile
        [second] = programs()
        assert second != first
        del waits
    assert programs() == []


def test_another_user_of_the_machine_is_refused(ray: ModuleType) -> None:
    ask = """
        import socket, sys
        client = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
        print(client.recv(99))
    """
    with strangers.shared_folder():
        said = strangers.run_as(strangers.STRANGER, ask, str(ray.nodes()[0]["MetricsExportPort"]))
    assert "403 Forbidden" in said.stdout


def _infeasible(port: int) -> float:
    [(_, value)] = read(port)["ray_internal_num_infeasible_scheduling_classes"]
    return value


def test_the_port_can_be_chosen_and_switched_off(ray_session: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        free = probe.getsockname()[1]
    ray = ray_session(num_cpus=1, _metrics_export_port=free)
    [row] = ray.nodes()
    assert row["MetricsExportPort"] in (free, 0)  # 0: another program took it in between
    ray.shutdown()
    ray = ray_session(num_cpus=1, _system_config={"metrics_port": False})
    assert ray.nodes()[0]["MetricsExportPort"] == 0
