"""Packages of a runtime environment: installed while the submitter goes on, from an index of the test's own."""

# mypy: disable-error-code="untyped-decorator"
# `ray` is whichever module the fixture gives, so its decorator has no type.
from __future__ import annotations

import socket
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sundog.owner import context

Start = Callable[..., ModuleType]
WHEEL = "tinydemo-1.0-py3-none-any.whl"
LONG_S = 200.0
pytestmark = pytest.mark.timeout(240)  # each makes virtual environments, however loaded the machine is


class Index:
    """A package index that answers when the test says so; pip waits for it meanwhile."""

    def __init__(self, wheel: bytes) -> None:
        self.asked, self.answer, self.hung_up = threading.Event(), threading.Event(), threading.Event()
        index = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                index.asked.set()
                index._await_answer(self.connection)
                if self.path == "/simple/tinydemo/":
                    body, kind = f'<a href="/{WHEEL}">{WHEEL}</a>'.encode(), "text/html"
                elif self.path == f"/{WHEEL}":
                    body, kind = wheel, "application/zip"
                else:
                    self.send_error(404)
                    return
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = False
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def _await_answer(self, connection: socket.socket) -> None:
        while not self.answer.wait(0.01):
            try:
                gone = connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
            except BlockingIOError:
                continue
            except ConnectionError:
                gone = True
            if gone:
                self.hung_up.set()
                return

    def env(self, package: str) -> dict[str, Any]:
        """A runtime environment with a package of this index."""
        url = f"http://127.0.0.1:{self.server.server_port}/simple"
        options = ["--isolated", "--no-cache-dir", "--retries", "0", "--index-url", url]
        return {"pip": {"packages": [package], "pip_install_options": options}}

    def close(self) -> None:
        self.answer.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    path = tmp_path / WHEEL
    info = "tinydemo-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("tinydemo.py", "answer = 42\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tinydemo\nVersion: 1.0\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        names = ("tinydemo.py", f"{info}/METADATA", f"{info}/WHEEL", f"{info}/RECORD")
        wheel.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in names))
    made = Index(path.read_bytes())
    yield made
    made.close()


def test_submitting_does_not_wait_for_packages_and_calls_keep_their_order(
    index: Index, ray_session: Start
) -> None:
    ray = ray_session(num_cpus=4)

    @ray.remote(runtime_env=index.env("tinydemo"))
    def read() -> int:
        import tinydemo  # type: ignore[import-not-found]

        return int(tinydemo.answer)

    @ray.remote(runtime_env=index.env("tinydemo"))
    class Log:
        def __init__(self) -> None:
            import tinydemo

            self.seen = [int(tinydemo.answer)]

        def add(self, number: int) -> list[int]:
            self.seen.append(number)
            return self.seen

    task, log = read.remote(), Log.remote()
    calls = [log.add.remote(number) for number in range(5)]
    assert index.asked.wait(LONG_S)
    assert ray.wait([task, *calls], num_returns=1, timeout=0)[0] == []
    index.answer.set()
    assert ray.get(task, timeout=LONG_S) == 42
    assert ray.get(calls[-1], timeout=60) == [42, 0, 1, 2, 3, 4]


def test_packages_that_cannot_be_installed_fail_the_get_and_not_the_call(
    index: Index, ray_session: Start
) -> None:
    ray = ray_session(num_cpus=2)
    index.answer.set()

    @ray.remote
    def one() -> int:
        return 1

    @ray.remote
    class Actor:
        def hello(self) -> int:
            return 1

    broken = index.env("no-such-package")
    tasks = [one.options(runtime_env=broken, max_retries=retries).remote() for retries in (0, 3)]
    call = Actor.options(runtime_env=broken).remote().hello.remote()
    for ref in (*tasks, call):
        with pytest.raises(ray.exceptions.RuntimeEnvSetupError, match="No matching distribution") as caught:
            ray.get(ref, timeout=LONG_S)
        facts: Any = caught.value
        assert facts.packages == ["no-such-package"] and facts.exit_code == 1
    assert ray.get(one.remote(), timeout=120) == 1


def test_a_task_is_cancelled_while_its_packages_are_installed(index: Index, ray_session: Start) -> None:
    ray = ray_session(num_cpus=2)

    @ray.remote
    def one() -> int:
        return 1

    installing = one.options(runtime_env=index.env("tinydemo"))
    cancelled, forced, kept = installing.remote(), installing.remote(), installing.remote()
    assert index.asked.wait(LONG_S)
    ray.cancel(cancelled)
    ray.cancel(forced, force=True)
    for ref in (cancelled, forced):
        with pytest.raises(ray.exceptions.TaskCancelledError):
            ray.get(ref, timeout=120)
    index.answer.set()
    assert ray.get(kept, timeout=LONG_S) == 1


def test_the_end_of_a_session_ends_an_installation(index: Index, ray_session: Start) -> None:
    ray = ray_session(num_cpus=1)

    @ray.remote(runtime_env=index.env("tinydemo"))
    def one() -> int:
        return 1

    ref = one.remote()
    assert index.asked.wait(LONG_S)
    ray.shutdown()
    assert index.hung_up.wait(LONG_S)
    del ref


def test_lists_do_not_wait_for_an_installation_and_know_it_afterwards(
    index: Index, ray_session: Start
) -> None:
    ray = ray_session(num_cpus=1)
    from sundog.util import state

    @ray.remote(runtime_env=index.env("tinydemo"))
    def one() -> int:
        return 1

    ref = one.remote()
    assert index.asked.wait(LONG_S)
    # The worker that installs reads no message. It owns nothing either, so nobody is missing from these lists.
    (task,) = state.list_tasks(raise_on_missing_output=True)
    assert task.state == "PENDING_NODE_ASSIGNMENT"
    assert state.summarize_tasks(raise_on_missing_output=True)["cluster"]["total_tasks"] == 1
    (running,) = state.list_runtime_envs(detail=True)
    path = str(context.facts.session["path"])
    index.answer.set()
    assert ray.get(ref, timeout=LONG_S) == 1
    ray.shutdown()
    (ended,) = state.list_runtime_envs(address=path, detail=True)
    assert ended.runtime_env == running.runtime_env and ended.success
