"""`sundog logs` by task, attempt, actor, worker and job, on a running session and after its end."""

# mypy: disable-error-code="untyped-decorator"
# `ray` is whichever module the fixture gives, so its decorator has no type.
from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

import pexpect
from click.testing import CliRunner

from sundog.cli import main
from tests.integration.gates import await_true
from tests.integration.terminals import Screen

JSON = '{"level": "info", "n": 1}'


def sundog(*arguments: str, code: int = 0) -> str:
    found = CliRunner().invoke(main, ["logs", *arguments], standalone_mode=True)
    assert found.exit_code == code, found.output
    # Not `output`, in which click writes a newline for a return with a newline.
    return found.stderr if code else found.stdout_bytes.decode()


def check(ray_id: str, task: str, pid: int, job: str) -> None:
    """What must hold while the session runs, and after it."""
    text = sundog("task", task)
    assert text.count("==> attempt") == 2
    assert f"attempt 1 of it\n{JSON}\n 10%\r 20%\r\n" in text and "attempt 0 of it\n" in text
    assert sundog("task", task, "-a", "0") == f"attempt 0 of it\n{JSON}\n 10%\r 20%\r\n"
    assert sundog("task", "--id", task, "-a", "1", "--tail", "1") == " 10%\r 20%\r\n"
    assert "to stderr" in sundog("task", task, "-a", "0", "--err")
    assert "hello 1\nhello 2\n" in sundog("actor", "anna")
    assert sundog("actor", ray_id) == sundog("actor", "anna") == sundog("worker", str(pid))
    assert "hello 2\n" in sundog("job", job) and "attempt 0" in sundog("job", job)
    assert json.loads(sundog("actor", "anna", "--json"))["lines"][0] == "hello 1"
    assert "node.log" in json.loads(sundog("--json"))["internal"]
    assert "There is no task" in sundog("task", "f" * 32, code=1)
    assert "See: sundog list actors" in sundog("actor", "bernd", code=1)
    assert "See: sundog list workers" in sundog("worker", "1", code=1)
    assert "prints to its own terminal" in sundog("driver", code=1)
    assert "an id is missing" in sundog("task", code=2)


def test_logs_are_found_by_whatever_printed_them_while_it_runs_and_afterwards(ray_session: Any) -> None:
    ray = ray_session(num_cpus=4, log_to_driver=False)  # else its lines would be among the command's

    @ray.remote(max_retries=1, retry_exceptions=True)
    def twice() -> None:
        attempt = _attempt()
        print(f"attempt {attempt} of it\n{JSON}")
        print(" 10%\r 20%\r")
        print("to stderr", file=sys.stderr)
        if not attempt:
            raise ValueError

    @ray.remote
    class Speaker:
        def says(self, n: int) -> int:
            print("hello", n, flush=True)
            return os.getpid()

    anna = Speaker.options(name="anna").remote()
    [pid, _] = ray.get([anna.says.remote(1), anna.says.remote(2)])
    ref = twice.remote()
    ray.get(ref)
    task, job = ref.task_id().hex(), ray.get_runtime_context().get_job_id()
    ray_id = anna._actor_id.hex()
    check(ray_id, task, pid, job)

    terminal: Any = Screen(
        [sys.executable, "-m", "sundog.cli", "logs", "actor", "anna", "--follow", "--tail", "1"]
    )
    try:
        terminal.expect("hello 2")
        ray.get(anna.says.remote(3))
        terminal.expect("hello 3")
        terminal.kill(signal.SIGINT)
        terminal.expect(pexpect.EOF)
        terminal.wait()
        assert terminal.exitstatus == 130 and "hello 1" not in terminal.before
    finally:
        terminal.close(force=True)
    from sundog.util import state

    row = state.get_log(actor_id=ray_id, tail=1)
    assert list(row) == ["hello 3\n"]
    ray.shutdown()
    check(ray_id, task, pid, job)
    followed = sundog("actor", "anna", "--follow")  # of an ended session: all there is, and it returns
    assert followed.splitlines() == ["hello 1", "hello 2", "hello 3"]


def _attempt() -> int:
    from sundog.owner import context

    running = context.current()
    assert running is not None
    return running.attempt


def test_a_talkative_worker_has_its_log_rotated(ray_session: Any) -> None:
    ray = ray_session(
        num_cpus=1,
        log_to_driver=False,
        _system_config={"log_rotation_max_bytes": 2000, "log_rotation_backup_count": 2},
    )

    @ray.remote
    def talks() -> int:
        for number in range(200):
            print("a line of fifty characters, so that the file grows", number, flush=True)
        return os.getpid()

    pid = ray.get(talks.remote())
    await_true(lambda: ".out.2" in sundog(), "the log is rotated")
    assert ".out.3" not in sundog()
    assert sundog("worker", str(pid)).endswith("grows 199\n")
    assert "grows 0\n" not in sundog("worker", str(pid))
