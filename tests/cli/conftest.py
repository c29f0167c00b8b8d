"""A stand-in for `engines.sessions`: the commands' own logic is tested without a session."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sundog.cli import main
from sundog.wire.requests import ListRows, Request, Status


@dataclass(frozen=True)
class FakeInfo:
    name: str = "session-1"
    path: str = "/somewhere/session-1"
    address: str = "unix:/somewhere/session-1/node.sock"
    node_pid: int = 4242
    namespace: str = ""
    persistent: bool = True
    cpus: float = 2.0


@dataclass
class FakeSessions:
    """Remembers what the commands asked for; answers what the test has put in."""

    live: list[FakeInfo] = field(default_factory=list)
    answer: dict[str, Any] = field(default_factory=dict)
    tasks: list[dict[str, Any]] = field(default_factory=list)  # facts, as owners tell them
    started: list[dict[str, Any]] = field(default_factory=list)
    stopped: list[tuple[str, bool, float]] = field(default_factory=list)
    looked_in: list[str | None] = field(default_factory=list)
    on_start: FakeInfo = field(default_factory=FakeInfo)
    failure: Exception | None = None

    def start_head(self, **settings: Any) -> FakeInfo:
        if self.failure is not None:
            raise self.failure
        self.started.append(settings)
        return self.on_start

    def find_sessions(self, temp_dir: str | None = None) -> list[FakeInfo]:
        self.looked_in.append(temp_dir)
        return self.live

    def stop_session(self, info: FakeInfo, force: bool, grace_s: float) -> list[str]:
        if self.failure is not None and info.name == "stuck":
            raise self.failure
        self.stopped.append((info.name, force, grace_s))
        return [f"node {info.node_pid} of {info.name}"]

    def request(self, info: FakeInfo, question: Request[Any]) -> Any:
        if self.failure is not None:
            raise self.failure
        if isinstance(question, ListRows):
            assert question.what == "tasks"
            return self.tasks, []
        assert question == Status()
        return self.answer


def session_folder(parent: Path) -> Path:
    """The folder of a session that has ended, without records."""
    folder = parent / "session_2026-01-02_03-04-05_1_aaaa"
    (folder / "rings").mkdir(parents=True)
    folder.chmod(0o700)
    (folder / ".sundog").symlink_to(folder.name)
    return folder


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> FakeSessions:
    fake = FakeSessions()
    from sundog.engines import sessions as real

    module = ModuleType("sundog.engines.sessions")
    vars(module).update(
        vars(real)
    )  # whoever is imported first by a command, and uses another part of it, finds that
    for name in ("start_head", "find_sessions", "stop_session", "request"):
        setattr(module, name, getattr(fake, name))
    import sundog.engines

    monkeypatch.setitem(sys.modules, "sundog.engines.sessions", module)
    monkeypatch.setattr(sundog.engines, "sessions", module, raising=False)
    return fake


@pytest.fixture
def sundog() -> Callable[..., Result]:
    """The command line, in this process: `sundog("status", "--json")`."""
    return lambda *args: CliRunner().invoke(main, list(args), prog_name="sundog")
