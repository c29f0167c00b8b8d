"""The runner's side of the two programs: start a host or a start-up sample, talk to it, end it for certain.

Run by the runner, one at a time. Whatever a program leaves behind is counted and killed before the next one
starts: two systems never run at once. Errors of a system are raised as CaseFailed or HostLost, with its last
output.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from benchmarks import footprint
from benchmarks.cases import Case
from benchmarks.sampling import Effort, Reading

ROOT = Path(__file__).resolve().parent.parent
START_LIMIT_S = 60.0
STOP_LIMIT_S = 30.0
GONE_LIMIT_S = 2.0
IDLE_WINDOW_S = 2.0


class CaseFailed(Exception):
    """The system answered with an error; its host lives on."""


class HostLost(Exception):
    """The host died, did not start, or did not answer in time; a new one is needed."""


@dataclass(frozen=True)
class Launch:
    """How to start a system's processes: which python, with which environment."""

    python: str
    environ: Mapping[str, str]


def find_launch(system: str, peers_python: str, own_python: str, scratch: str) -> Launch:
    """sundog runs on `own_python` (from src/ unless installed), all others on `peers_python`."""
    path = [str(ROOT)]
    if system == "sundog" and not has_module(own_python, "sundog"):
        path.append(str(ROOT / "src"))
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "RAY_TMPDIR": scratch}
    return Launch(own_python if system == "sundog" else peers_python, environ)


def has_module(python: str, module: str) -> bool:
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    # -I and a neutral folder: a directory that happens to be called like the module is not an installation.
    return subprocess.run([python, "-I", "-c", code], env=environ, cwd="/", check=False).returncode == 0


def last_lines(log: IO[bytes], count: int = 3) -> str:
    # pread: the program writes through the same open file, so moving its position would garble the log.
    lines = os.pread(log.fileno(), 1 << 24, 0).decode(errors="replace").strip().splitlines()
    return " | ".join(line.strip() for line in lines[-count:])


class Host:
    """A running host of one system. Use as a context manager; leaving it leaves nothing running."""

    def __init__(self, system: str, launch: Launch, effort: Effort) -> None:
        self.version = ""
        self._log: IO[bytes] = tempfile.TemporaryFile()
        self._channel, theirs = socket.socketpair()
        command = [launch.python, "-m", "benchmarks.host", system, str(theirs.fileno())]
        self._process = subprocess.Popen(
            [*command, json.dumps(effort.as_dict())],
            env=dict(launch.environ),
            cwd=ROOT,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        theirs.close()
        self._pending = b""

    def __enter__(self) -> Host:
        try:
            self.version = self._answer("starting", START_LIMIT_S)["version"]
        except CaseFailed as exc:
            self._end()
            raise HostLost(f"did not start: {exc}") from exc
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._end()

    def measure(self, case: Case) -> list[Reading]:
        """Raises CaseFailed with the system's error, or HostLost."""
        self._send({"case": case.name})
        return [Reading(**fields) for fields in self._answer(case.name, case.timeout_s)["readings"]]

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self._channel.sendall(json.dumps(message).encode() + b"\n")
        except OSError as exc:
            raise HostLost(f"the host is gone: {exc}; it last said: {last_lines(self._log)}") from exc

    def _answer(self, doing: str, limit_s: float) -> dict[str, Any]:
        deadline = time.monotonic() + limit_s
        # A short timeout in a loop: forked workers may hold the channel open after the host itself has died.
        self._channel.settimeout(0.5)
        while b"\n" not in self._pending:
            try:
                chunk = self._channel.recv(65536)
            except TimeoutError:
                if self._process.poll() is None and time.monotonic() < deadline:
                    continue
                chunk = b""
            except ConnectionResetError:
                chunk = b""
            if not chunk:
                raise HostLost(self._obituary(doing, deadline))
            self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise CaseFailed(answer["error"])
        return answer

    def _obituary(self, doing: str, deadline: float) -> str:
        if time.monotonic() >= deadline:
            return f"timed out during {doing!r}; it last said: {last_lines(self._log)}"
        code = self._process.wait(STOP_LIMIT_S)
        return f"the host ended with {code} during {doing!r}; it last said: {last_lines(self._log)}"

    def _end(self) -> None:
        try:
            self._send({"stop": True})
            self._process.wait(STOP_LIMIT_S)
        except (HostLost, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._channel.close()
        self._log.close()
        footprint.await_none_below(os.getpid(), GONE_LIMIT_S)


def sample_start_up(system: str, launch: Launch, settle_s: float | None) -> tuple[list[Reading], str]:
    """One fresh start: readings and the system's version. With `settle_s`, the idle footprint too.

    Raises HostLost when the program ends early or takes too long.
    """
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [launch.python, "-m", "benchmarks.startup", system],
            env=dict(launch.environ),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            first = _await_line(process, log, 1, START_LIMIT_S)
            readings = [
                Reading("import", "ms", first["import_s"] * 1e3),
                Reading("init to first result", "ms", first["first_result_s"] * 1e3),
            ]
            if settle_s is not None:
                readings += _idle_readings(settle_s)
            process.communicate(b"\n", timeout=STOP_LIMIT_S)
            last = _await_line(process, log, 2, STOP_LIMIT_S)
        except (subprocess.TimeoutExpired, BrokenPipeError) as exc:
            raise HostLost(f"shutdown failed: {exc}; it last said: {last_lines(log)}") from exc
        finally:
            process.kill()
            process.wait()
            left = footprint.await_none_below(os.getpid(), GONE_LIMIT_S)
    readings.append(Reading("shutdown", "ms", last["shutdown_s"] * 1e3))
    readings.append(Reading("processes left 2 s after exit", "processes", left))
    return readings, str(first["version"])


def _idle_readings(settle_s: float) -> list[Reading]:
    time.sleep(settle_s)
    before = footprint.measure(os.getpid())
    time.sleep(IDLE_WINDOW_S)
    after = footprint.measure(os.getpid())
    cpu = max(0.0, after.cpu_s - before.cpu_s) / IDLE_WINDOW_S * 100
    return [
        Reading("idle memory", "MB", after.pss_mb),
        Reading("idle processes", "processes", after.processes),
        Reading("idle threads", "threads", after.threads),
        Reading("idle CPU", "% of a core", cpu),
    ]


def _await_line(
    process: subprocess.Popen[bytes], log: IO[bytes], number: int, limit_s: float
) -> dict[str, Any]:
    """The `number`-th line that the start-up program wrote for us."""
    deadline = time.monotonic() + limit_s
    while True:
        ended = process.poll()
        text = os.pread(log.fileno(), 1 << 24, 0).decode(errors="replace")
        lines = [line for line in text.splitlines(keepends=True) if line.startswith("startup ")]
        if len(lines) >= number and lines[number - 1].endswith("\n"):
            found: dict[str, Any] = json.loads(lines[number - 1].removeprefix("startup "))
            return found
        if ended is not None or time.monotonic() > deadline:
            outcome = f"ended with {ended}" if ended is not None else f"took over {limit_s:.0f} s"
            raise HostLost(f"start-up {outcome}; it last said: {last_lines(log)}")
        time.sleep(0.01)
