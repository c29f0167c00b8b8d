"""Our integration tests on a real Ray cluster: `make test-ray`, and a short part of it in `make test`.

::

    python -m tests.on_ray           all of tests/both_engines.py
    python -m tests.on_ray --short   one job with what every command says of it, in less than a minute

Owns the cluster: one node at a port of its own, started for this run and ended by the ids of its processes. Needs Ray,
which is in an environment of its own: the Makefile makes that.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

SHORT = ["tests/ray_engine/on_cluster/test_jobs.py"]
_CPUS = 4
_STORE_BYTES = 200 << 20
_SMALL_STORE_BYTES = 100 << 20
_START_S = 300
_TRIES = 3
_KEEN = {
    "RAY_worker_niceness": "0"
}  # Ray's workers give way to all else: beside other work, tests take for ever
# Of the autoscaler's file: what would be run on machines, of which the fake provider has none.
_NO_COMMANDS = (
    *("initialization_commands", "setup_commands", "head_setup_commands", "worker_setup_commands"),
    *("head_start_ray_commands", "worker_start_ray_commands", "cluster_synced_files"),
    *("rsync_exclude", "rsync_filter"),
)


_given: set[int] = set()


def free_port() -> int:
    """A port that no process has now, and that was not given before: a cluster needs several at a time."""
    while True:
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            port = int(sock.getsockname()[1])
        if port not in _given:
            _given.add(port)
            return port


@contextlib.contextmanager
def cluster(*more: str, port: int = 0, variables: Mapping[str, str] | None = None) -> Iterator[str]:
    """A cluster of one node; gives its address.

    Args:
        port: of its address; by default one that is free.
        more: further arguments of `ray start`; the last of each kind counts.
        variables: of its processes' environment.
    """
    folder = tempfile.mkdtemp(prefix="sd-ray-", dir="/tmp")
    port = port or free_port()
    command = [
        str(Path(sys.executable).with_name("ray")),
        "start",
        "--head",
        "--block",
        "--disable-usage-stats",
    ]
    command += [f"--port={port}", f"--num-cpus={_CPUS}", f"--object-store-memory={_STORE_BYTES}"]
    command += [
        f"--temp-dir={folder}",
        "--include-dashboard=false",
        f"--ray-client-server-port={free_port()}",
        # By default one port of the machine: the second cluster here would have no process that starts jobs.
        f"--dashboard-agent-listen-port={free_port()}",
    ]
    environ = {
        **os.environ,
        "RAY_agent_register_timeout_ms": str(_START_S * 1000),
        **_KEEN,
        **(variables or {}),
    }
    environ.pop("RAY_ADDRESS", None)
    head = _start([*command, *more], environ, f"{folder}/start.log")
    try:
        yield f"127.0.0.1:{port}"
    finally:
        _end(head)
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def autoscaling(workers_max: int) -> Iterator[str]:
    """A cluster whose autoscaler (v2) starts nodes of one CPU by Ray's fake provider, on this machine.

    Ray has `AutoscalingCluster` for this, which ends every Ray on the machine; so its parts are used here.
    """
    from ray.autoscaler._private.fake_multi_node.node_provider import FAKE_HEAD_NODE_ID

    port = free_port()
    config = {
        "cluster_name": "tests",
        "max_workers": workers_max,
        "idle_timeout_minutes": 0.1,
        "upscaling_speed": 1.0,
        # By its class: under its name Ray looks for a file of defaults, which its wheel lacks.
        "provider": {
            "type": "external",
            "module": "ray.autoscaler._private.fake_multi_node.node_provider.FakeMultiNodeProvider",
            "launch_multiple": True,
            "head_node_id": FAKE_HEAD_NODE_ID,
            "gcs_address": f"127.0.0.1:{port}",
        },
        "available_node_types": {
            "ray.head.default": {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
            "worker": {
                "resources": {"CPU": 1, "object_store_memory": _SMALL_STORE_BYTES},
                "node_config": {},
                "min_workers": 0,
                "max_workers": workers_max,
            },
        },
        "head_node_type": "ray.head.default",
        **{name: [] for name in _NO_COMMANDS},
        **{name: {} for name in ("auth", "docker", "file_mounts")},
    }
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        json.dump(config, file)
        file.flush()
        with cluster(
            f"--autoscaling-config={file.name}",
            "--num-cpus=0",
            f"--object-store-memory={_SMALL_STORE_BYTES}",
            port=port,
            variables={
                "AUTOSCALER_UPDATE_INTERVAL_S": "1",
                "RAY_FAKE_CLUSTER": "1",
                "RAY_enable_autoscaler_v2": "1",
                "RAY_CLOUD_INSTANCE_ID": FAKE_HEAD_NODE_ID,
                "RAY_OVERRIDE_NODE_ID_FOR_TESTING": FAKE_HEAD_NODE_ID,
            },
        ) as address:
            yield address


def _start(command: list[str], environ: dict[str, str], log: str) -> subprocess.Popen[bytes]:
    """Start Ray, again if need be: it gives itself 30 seconds, which a busy machine may not have."""
    for _ in range(_TRIES):
        with open(log, "w", encoding="utf-8") as file:
            head = subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True, env=environ)
        deadline = time.monotonic() + _START_S
        while head.poll() is None and time.monotonic() < deadline:
            if "Ray runtime started" in Path(log).read_text(errors="replace"):
                return head
            time.sleep(0.1)
        _end(head)
    raise SystemExit(f"Ray did not start:\n{Path(log).read_text(errors='replace')[-2000:]}")


def _end(head: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(head.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        head.wait(30)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(head.pid, signal.SIGKILL)
    head.wait()


def main() -> int:
    """Run the tests; returns pytest's exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="a few of them, in less than a minute")
    parser.add_argument("arguments", nargs="*", help="for pytest, instead of the tests of the list")
    given, rest = parser.parse_known_args()
    from tests.both_engines import FILES

    with cluster() as address:
        environ = {
            **os.environ,
            "SUNDOG_ENGINE": "ray",
            "SUNDOG_SHIP_TO_NODES": "0",  # the nodes have this Python
            "RAY_ADDRESS": address,
            **_KEEN,
        }
        chosen = given.arguments or (SHORT if given.short else ["tests/ray_engine/on_cluster", *FILES])
        pytest = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *chosen, *rest]
        return subprocess.run(pytest, env=environ, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
