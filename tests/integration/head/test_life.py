"""The life of the head process: started, killed, started again, ended; and what it leaves."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

import sundog as ray
from sundog.engines import heads, sessions
from tests.integration.gates import await_true
from tests.integration.head.conftest import Head, Sundog, await_end


def test_a_killed_head_is_started_again_and_no_request_is_refused_meanwhile(head: Head) -> None:
    assert head.get("/api/version")["session_name"] == head.session.name
    first = head.pid()
    os.kill(first, signal.SIGKILL)
    # The node holds the socket: this waits for the next head process.
    with httpx.Client(headers=dict(head.client.headers), timeout=60) as client:
        assert client.get(f"{head.info.url}/api/healthz").text == "success"
    assert head.pid() not in (0, first)
    assert head.info.token not in head.log()


def test_a_session_that_ends_takes_its_head_along(head: Head) -> None:
    assert head.get("/api/version")
    pid = head.pid()
    sessions.stop_session(head.session)
    await_end(pid)
    assert heads.read_head(head.session.path) is None


def test_a_killed_node_takes_its_head_along(head: Head) -> None:
    assert head.get("/api/version")
    pid = head.pid()
    os.kill(head.session.node_pid, signal.SIGKILL)
    await_end(pid)
    sessions.stop_session(head.session, force=True)


def test_init_starts_a_head_only_when_asked(leak_check: Path) -> None:
    with ray.init(num_cpus=1) as facts:
        assert facts.dashboard_url is None
        assert heads.read_head(facts["session_dir"]) is None
    with ray.init(num_cpus=1, include_dashboard=True, dashboard_port=0) as facts:
        found = heads.read_head(facts["session_dir"])
        assert found is not None and facts.dashboard_url == f"127.0.0.1:{found.port}"
        answer = httpx.get(
            f"{found.url}/api/version", headers={"authorization": f"Bearer {found.token}"}, timeout=60
        )
        assert answer.json()["session_name"] == facts["session_name"]
    with pytest.raises(httpx.ConnectError):
        httpx.get(found.url)


def test_start_prints_an_address_that_works_and_stop_ends_it(sundog: Sundog) -> None:
    said = sundog(
        "start", "--head", "--num-cpus", "1", "--include-dashboard", "true", "--dashboard-port", "0"
    )
    assert said.returncode == 0, said.stderr
    page = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", said.stdout)
    assert page is not None
    url = page.group().partition("/?")[0]
    try:
        answer = httpx.get(page.group(), timeout=60)
        assert answer.status_code == 303 and "sundog-token" in answer.headers["set-cookie"]
        assert sundog("dashboard").stdout.strip().endswith(page.group())
    finally:
        assert sundog("stop").returncode == 0
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/api/healthz")


def test_a_port_that_is_taken_is_said_in_one_sentence(sundog: Sundog) -> None:
    with heads.make_head(None, 0).listener as other:
        port = str(other.getsockname()[1])
        done = sundog("start", "--head", "--include-dashboard", "true", "--dashboard-port", port)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and f"127.0.0.1:{port}" in done.stderr


def test_the_dashboard_of_an_ended_session_runs_in_the_terminal(head: Head) -> None:
    sessions.stop_session(head.session)
    program = subprocess.Popen(
        [sys.executable, "-m", "sundog.cli", "dashboard", "--session", head.session.name, "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert program.stdout is not None
        assert "(ended)" in program.stdout.readline()
        page = program.stdout.readline().strip()
        url, _, token = page.partition("/?token=")
        answer = httpx.get(f"{url}/api/version", headers={"authorization": f"Bearer {token}"}, timeout=60)
        assert answer.json()["session_name"] == head.session.name
        program.send_signal(signal.SIGINT)
        assert program.wait(60) == 0
    finally:
        program.kill()
        program.wait()
        assert program.stdout is not None
        program.stdout.close()
    assert heads.read_head(head.session.path) is None


def test_without_its_packages_start_says_what_to_install_and_starts_all_the_same(
    sundog: Sundog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys, importlib.machinery as m\n"
        "find = m.PathFinder.find_spec\n"
        "m.PathFinder.find_spec = classmethod(\n"
        "    lambda cls, name, *rest: None if name == 'uvicorn' else find(name, *rest))\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("SUNDOG_include_dashboard", "1")
    said = sundog("start", "--head", "--num-cpus", "1")
    try:
        assert said.returncode == 0 and "is running" in said.stdout
        assert "pip install 'sundog[default]'" in said.stderr and "Dashboard" not in said.stdout
    finally:
        assert sundog("stop").returncode == 0
    refused = sundog("start", "--head", "--include-dashboard", "true")
    assert refused.returncode == 1 and "uvicorn" in refused.stderr


def test_nobody_waits_for_the_head(head: Head) -> None:
    """The session answers while its head process is stopped."""
    assert head.get("/api/version")
    pid = head.pid()
    os.kill(pid, signal.SIGSTOP)
    try:
        ray.init(address=head.session.path)
        assert ray.get(ray.remote(lambda: 7).remote()) == 7
        ray.shutdown()
    finally:
        os.kill(pid, signal.SIGCONT)
    await_true(lambda: head.get("/api/version") is not None, "the head to answer")
