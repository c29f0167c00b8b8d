"""`sundog kill-actor` and `sundog health-check` on a real session."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import pytest

import sundog as ray
from sundog.cli import exits


def command(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sundog.cli", *args], capture_output=True, text=True, check=False, timeout=120
    )


def test_a_named_actor_ends_after_its_calls_or_at_once(leak_check: object) -> None:
    started = command("start", "--head", "--num-cpus", "2")
    assert started.returncode == exits.OK, started.stderr
    try:
        ray.init(address="auto", namespace="here", log_to_driver=False)

        @ray.remote(max_restarts=-1)
        class Named:
            def ping(self) -> int:
                return 1

        actors = {name: Named.options(name=name).remote() for name in ("gentle", "forced", "again")}
        ray.get([actor.ping.remote() for actor in actors.values()])
        in_namespace = ("--namespace", "here", "--name")

        assert command("kill-actor", *in_namespace, "gentle").returncode == exits.OK
        assert (
            command("kill-actor", *in_namespace, "forced", "--force", "--no-restart").returncode == exits.OK
        )
        for name in ("gentle", "forced"):
            with pytest.raises(ray.exceptions.ActorDiedError):
                ray.get(actors[name].ping.remote())
        assert command("kill-actor", *in_namespace, "again", "--force").returncode == exits.OK
        assert pings_again(actors["again"])

        absent = command("kill-actor", *in_namespace, "nobody")
        assert absent.returncode == exits.FAILED and "nobody" in absent.stderr
        elsewhere = command("kill-actor", "--name", "again")
        assert elsewhere.returncode == exits.FAILED and "--namespace NAMESPACE" in elsewhere.stderr
        assert command("kill-actor").returncode == exits.FAILED
        assert command("health-check").returncode == exits.OK
    finally:
        ray.shutdown()
        command("stop", "--force")
    assert command("health-check").returncode == exits.NO_SESSION
    assert command("kill-actor", "--name", "again").returncode == exits.NO_SESSION


def pings_again(actor: Any) -> bool:
    """Whether an actor that was killed answers in its next life."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            return bool(ray.get(actor.ping.remote()) == 1)
        except ray.exceptions.ActorUnavailableError:
            time.sleep(0.02)
    return False
