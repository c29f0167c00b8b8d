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
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

SHORT = ["tests/ray_engine/on_cluster/test_jobs.py"]
_CPUS = 4
_STORE_BYTES = 200 << 20
_START_S = 300


def free_port() -> int:
    """A port that nobody has now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextlib.contextmanager
def cluster() -> Iterator[str]:
    """A cluster of one node; gives its address."""
    folder = tempfile.mkdtemp(prefix="sd-ray-", dir="/tmp")
    port = free_port()
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
    ]
    log = open(f"{folder}/start.log", "w+", encoding="utf-8")
    head = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        _await_start(head, f"{folder}/start.log")
        yield f"127.0.0.1:{port}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(head.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            head.wait(30)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(head.pid, signal.SIGKILL)
        log.close()
        shutil.rmtree(folder, ignore_errors=True)


def _await_start(head: subprocess.Popen[bytes], log: str) -> None:
    import time

    deadline = time.monotonic() + _START_S
    while "Ray runtime started" not in Path(log).read_text(errors="replace"):
        if head.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"Ray did not start:\n{Path(log).read_text(errors='replace')[-2000:]}")
        time.sleep(0.1)


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
        }
        chosen = given.arguments or (SHORT if given.short else ["tests/ray_engine/on_cluster", *FILES])
        pytest = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *chosen, *rest]
        return subprocess.run(pytest, env=environ, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
