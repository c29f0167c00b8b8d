"""Real Ray's own clients talk to a head process: every route, and the table of them in the docs.

Where SUNDOG_TEST_RAY_PYTHON names no Python that has Ray, this is skipped. `SUNDOG_RECORD=1` writes the table anew.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.integration.head.conftest import Head

PEER_PYTHON = os.environ.get("SUNDOG_TEST_RAY_PYTHON")
PAGE = Path(__file__).parents[3] / "docs" / "ray-http.md"
START, END = "<!-- routes:start -->", "<!-- routes:end -->"
JOB = """
import time
import ray
ray.init(runtime_env={"env_vars": {"A": "1"}})
@ray.remote(num_cpus=0)
class Counter:
    def ready(self):
        return True
@ray.remote(num_cpus=0)
def waits():
    time.sleep(1000)
counter = Counter.remote()
ray.get(counter.ready.remote())
kept = ray.put(b"x" * 1_000_000)
group = ray.util.placement_group([{"CPU": 0.1}])
ray.get(group.ready())
ref = waits.remote()
print("ready", flush=True)
ray.get(ref)
"""


def _table(rows: list[dict[str, str]]) -> str:
    lines = ["| route | asked by Ray's own | answered |", "|---|---|---|"]
    for row in sorted(
        rows, key=lambda each: (each["route"].partition(" ")[2], each["route"], each["client"])
    ):
        lines.append(f"| `{row['route']}` | {row['client']} | {'no' if row['wrong'] else 'yes'} |")
    return "\n".join(lines)


@pytest.mark.timeout(500)
@pytest.mark.skipif(PEER_PYTHON is None, reason="SUNDOG_TEST_RAY_PYTHON names no Python that has Ray")
def test_every_route_answers_ray_s_own_client(head: Head, tmp_path: Path) -> None:
    assert PEER_PYTHON is not None
    (tmp_path / "job.py").write_text(JOB)
    script = Path(__file__).with_name("ray_clients.py")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "SUNDOG_"))}
    environ.pop("PYTHONPATH", None)
    environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": head.info.token}
    done = subprocess.run(
        [PEER_PYTHON, str(script), head.info.url, str(tmp_path)], env=environ, capture_output=True, text=True
    )
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"client"')]
    assert done.returncode == 0, done.stderr[-3000:]
    wrong = [row for row in rows if row["wrong"]]
    assert not wrong, "\n".join(map(str, wrong))
    before, _, rest = PAGE.read_text().partition(START)
    shown, _, after = rest.partition(END)
    table = _table(rows)
    if os.environ.get("SUNDOG_RECORD"):
        PAGE.write_text(f"{before}{START}\n{table}\n{END}{after}")
    else:
        assert shown.strip() == table, "write it anew with SUNDOG_RECORD=1"


def test_the_page_has_a_row_for_every_route_that_is_promised() -> None:
    text = PAGE.read_text()
    kinds = ("tasks", "actors", "objects", "workers", "nodes", "jobs", "placement_groups", "runtime_envs")
    promised = [f"/api/v0/{kind}" for kind in (*kinds, "cluster_events", "logs", "tasks/timeline")]
    promised += [f"/api/v0/{kind}/summarize" for kind in ("tasks", "actors", "objects")]
    promised += ["/api/version", "/api/jobs/{id}/logs/tail", "/api/packages/", "/nodes", "/logical/actors"]
    promised += ["/api/healthz", "/api/authenticate", "/worker/traceback", "/worker/cpu_profile"]
    promised += ["/memory_profile", "/api/prometheus/sd", "/api/serve/applications/"]
    assert [route for route in promised if route not in text] == []
