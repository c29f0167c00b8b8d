"""Real Ray's own clients against a head process of sundog. Run by a Python that has Ray: `ray_clients.py URL FOLDER`.

Prints one JSON row for each route: the client that asked, the route, and "" or what went wrong.
"""

# mypy: ignore-errors
from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import requests
from ray.job_submission import JobStatus, JobSubmissionClient
from ray.util import state

URL, FOLDER = sys.argv[1], sys.argv[2]
HEADERS = {"Authorization": f"Bearer {os.environ['RAY_AUTH_TOKEN']}"}


def check(client: str, route: str, question: Callable[[], object]) -> None:
    """Ask, and print what came of it; what the question gives must be true."""
    try:
        wrong = "" if question() else "it gave nothing"
    except Exception as error:
        wrong = f"{type(error).__name__}: {error}"
    print(json.dumps({"client": client, "route": route, "wrong": wrong}), flush=True)


def fetch(path: str, method: str = "GET", **how: Any) -> requests.Response:
    answer = requests.request(method, URL + path, headers=HEADERS, timeout=120, **how)
    answer.raise_for_status()
    return answer


def ray(*words: str) -> str:
    done = subprocess.run(
        [os.path.join(os.path.dirname(sys.executable), "ray"), *words],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def wait_for(question: Callable[[], object]) -> bool:
    deadline = time.monotonic() + 100
    while not question():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def follow(client: JobSubmissionClient, job: str) -> str:
    async def heard() -> str:
        return "".join([text async for text in client.tail_job_logs(job)])

    return asyncio.run(heard())


def jobs() -> JobSubmissionClient:
    client = JobSubmissionClient(URL)
    made = "JobSubmissionClient"
    check(made, "GET /api/version", lambda: client.get_version())
    check(
        f"{made}.submit_job(working_dir)",
        "PUT /api/packages/gcs/…, POST /api/jobs/",
        lambda: client.submit_job(
            entrypoint="python job.py", submission_id="long", runtime_env={"working_dir": FOLDER}
        ),
    )
    client.submit_job(entrypoint="echo hello; sleep 1; echo over", submission_id="short")
    client.submit_job(entrypoint="sleep 1000", submission_id="endless")
    check(
        f"{made}.tail_job_logs",
        "WebSocket /api/jobs/{id}/logs/tail",
        lambda: follow(client, "short") == "hello\nover\n",
    )
    check(
        f"{made}.get_job_logs",
        "GET /api/jobs/{id}/logs",
        lambda: client.get_job_logs("short") == "hello\nover\n",
    )
    check(
        f"{made}.get_job_info",
        "GET /api/jobs/{id}",
        lambda: wait_for(lambda: client.get_job_info("short").status == JobStatus.SUCCEEDED),
    )
    check(f"{made}.list_jobs", "GET /api/jobs/", lambda: len(client.list_jobs()) >= 3)
    check(
        f"{made}.stop_job",
        "POST /api/jobs/{id}/stop",
        lambda: (
            client.stop_job("endless") and wait_for(lambda: client.get_job_status("endless") == "STOPPED")
        ),
    )
    check(f"{made}.delete_job", "DELETE /api/jobs/{id}", lambda: client.delete_job("endless"))
    return client


def rows(client: JobSubmissionClient) -> None:
    assert wait_for(lambda: "ready" in client.get_job_logs("long")), client.get_job_logs("long")
    for kind in (
        "tasks",
        "actors",
        "objects",
        "workers",
        "nodes",
        "jobs",
        "placement_groups",
        "runtime_envs",
    ):
        question = getattr(state, f"list_{kind}")
        check(
            f"state.list_{kind}", f"GET /api/v0/{kind}", lambda question=question: question(URL, detail=True)
        )
    check(
        "state.list_cluster_events",
        "GET /api/v0/cluster_events",
        lambda: state.list_cluster_events(URL) == [],
    )
    check(
        "state.list_tasks(filters)",
        "GET /api/v0/tasks?filter_keys=…",
        lambda: [each.name for each in state.list_tasks(URL, filters=[("name", "=", "waits")])] == ["waits"],
    )
    for kind in ("tasks", "actors", "objects"):
        question = getattr(state, f"summarize_{kind}")
        check(
            f"state.summarize_{kind}",
            f"GET /api/v0/{kind}/summarize",
            lambda question=question: "cluster" in question(URL),
        )
    node = state.list_nodes(URL)[0].node_id
    # `ray logs` and `state.get_log` look for the dashboard in Ray's GCS, and take no HTTP address: their requests.
    logs = f"/api/v0/logs?node_id={node}&glob=*"
    check("requests, as `ray logs` asks", "GET /api/v0/logs", lambda: fetch(logs).json()["data"]["result"])
    log = f"/api/v0/logs/file?node_id={node}&submission_id=long&lines=100&timeout=30&attempt_number=0&suffix=out"
    check("requests, as `ray logs` asks", "GET /api/v0/logs/file", lambda: "ready" in fetch(log).text)
    check("ray list tasks", "GET /api/v0/tasks", lambda: "waits" in ray("list", "tasks", "--address", URL))
    check(
        "ray summary tasks",
        "GET /api/v0/tasks/summarize",
        lambda: "waits" in ray("summary", "tasks", "--address", URL),
    )
    check("ray job list", "GET /api/jobs/", lambda: "long" in ray("job", "list", "--address", URL))


def pages() -> None:
    pid = next(each.pid for each in state.list_actors(URL) if each.state == "ALIVE")
    check("requests", "GET /api/healthz", lambda: fetch("/api/healthz").text == "success")
    check("requests", "POST /api/authenticate", lambda: fetch("/api/authenticate", "POST").ok)
    check(
        "requests", "GET /nodes?view=summary", lambda: fetch("/nodes?view=summary").json()["data"]["summary"]
    )
    check("requests", "GET /logical/actors", lambda: fetch("/logical/actors").json()["data"]["actors"])
    check("requests", "GET /api/v0/tasks/timeline", lambda: fetch("/api/v0/tasks/timeline").json())
    where = f"pid={pid}&ip=127.0.0.1"
    check("requests", "GET /worker/traceback", lambda: fetch(f"/worker/traceback?{where}").text)
    check(
        "requests", "GET /worker/cpu_profile", lambda: fetch(f"/worker/cpu_profile?{where}&duration=1").text
    )
    check("requests", "GET /memory_profile", lambda: fetch(f"/memory_profile?{where}&duration=1").ok)
    check("requests", "GET /api/prometheus/sd", lambda: fetch("/api/prometheus/sd").json()[0]["targets"])
    check(
        "requests",
        "GET /api/serve/applications/",
        lambda: "applications" in fetch("/api/serve/applications/").json(),
    )


client = jobs()
rows(client)
pages()
client.stop_job("long")
