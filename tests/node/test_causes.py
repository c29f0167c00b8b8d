"""The one cause of a worker's death: which evidence counts, and which does not."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sundog import events
from sundog.node import causes
from sundog.node.causes import Causes, OomCounters, fault_lines, last_words
from sundog.node.rows import Process
from sundog.system.oom_kills import VMSTAT, own_counters
from sundog.wire.cause import ENDED, EXIT, KERNEL_OOM, MEMORY, SIGNAL, Cause
from sundog.wire.marks import mark

KILLED = int(signal.SIGKILL)
SEGFAULT = int(signal.SIGSEGV)

DUMP = """\
noise of an earlier hour
Fatal Python error: Segmentation fault

Thread 0x00007f01 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 320 in wait

Current thread 0x00007f02 (most recent call first):
  File "/home/me/resize.py", line 12 in crash
  File "{ours}worker/executor.py", line 99 in run
  File "<string>", line 1 in <module>

Extension modules: numpy.core (total: 1)
"""


def counter(folder: Path, count: int, name: str = "memory.oom_control") -> Path:
    path = folder / name
    path.write_text(f"oom_kill_disable 0\nunder_oom 0\noom_kill {count}\n")
    return path


def worker(tmp_path: Path, **fields: Any) -> Process:
    process = Process(b"\x01" * 8, "worker", None, b"")  # type: ignore[arg-type]
    process.err_path = str(tmp_path / "worker.err")
    for name, value in fields.items():
        setattr(process, name, value)
    return process


@pytest.fixture
def made(tmp_path: Path) -> Causes:
    made = Causes(str(tmp_path))
    made.oom = OomCounters([str(counter(tmp_path, 3))], machine="/nowhere")
    return made


# ---------------------------------------------------------------------- wait statuses
def test_an_exit_code_is_told_as_one(made: Causes, tmp_path: Path) -> None:
    cause = made.of(worker(tmp_path), 7 << 8)
    assert (cause.kind, cause.exit_code, cause.signal) == (EXIT, 7, None)
    assert "exited by itself with code 7" in cause.text()


def test_a_signal_from_outside_is_not_ours(made: Causes, tmp_path: Path) -> None:
    cause = made.of(worker(tmp_path), int(signal.SIGTERM))
    assert (cause.kind, cause.signal, cause.intended) == (SIGNAL, signal.SIGTERM, False)
    assert "SIGTERM, which sundog did not send" in cause.text()


def test_a_fault_is_nobodys_signal(made: Causes, tmp_path: Path) -> None:
    assert "did not send" not in made.of(worker(tmp_path), SEGFAULT).text()


def test_our_own_kill_is_told_with_its_reason(made: Causes, tmp_path: Path) -> None:
    process = worker(tmp_path, kill_reason="sundog.kill() was called on it", killed=True, intended=True)
    cause = made.of(process, KILLED)
    assert (cause.kind, cause.intended) == (ENDED, True)
    assert cause.text() == "it was ended because sundog.kill() was called on it."


def test_a_process_that_crashed_before_our_kill_reached_it_crashed(made: Causes, tmp_path: Path) -> None:
    cause = made.of(worker(tmp_path, kill_reason="cancelled", killed=True, intended=True), SEGFAULT)
    assert (cause.kind, cause.reason, cause.intended) == (SIGNAL, "", False)


def test_a_kill_for_memory_keeps_its_figures(made: Causes, tmp_path: Path) -> None:
    process = worker(
        tmp_path, kill_reason="memory", killed=True, kill_kind=MEMORY, kill_facts={"used_bytes": 5}
    )
    cause = made.of(process, KILLED)
    assert (cause.kind, cause.facts) == (MEMORY, {"used_bytes": 5})


def test_an_end_that_nobody_lived_to_tell_is_only_an_end(made: Causes, tmp_path: Path) -> None:
    assert made.of(worker(tmp_path), None) == Cause()


# ---------------------------------------------------------------------- the kernel's out-of-memory killer
def test_a_kill_for_memory_by_the_kernel_is_known_by_the_counter(made: Causes, tmp_path: Path) -> None:
    (tmp_path / "memory.limit_in_bytes").write_text("268435456\n")
    counter(tmp_path, 4)
    cause = made.of(worker(tmp_path), KILLED, peak_bytes=250_000_000)
    assert cause.kind == KERNEL_OOM
    assert (cause.facts["before"], cause.facts["after"], cause.facts["limit_bytes"]) == (3, 4, 268435456)
    text = cause.text()
    assert "the kernel killed it because memory ran out within a limit of 268.4 MB" in text
    assert "went from 3 to 4" in text
    assert "Its peak was 250.0 MB" in text


def test_a_sigkill_without_a_movement_of_the_counter_is_a_plain_signal(made: Causes, tmp_path: Path) -> None:
    assert made.of(worker(tmp_path), KILLED).kind == SIGNAL


def test_one_movement_explains_one_death(made: Causes, tmp_path: Path) -> None:
    counter(tmp_path, 4)
    assert [made.of(worker(tmp_path), KILLED).kind for _ in range(2)] == [KERNEL_OOM, SIGNAL]


def test_another_signal_is_not_blamed_on_memory(made: Causes, tmp_path: Path) -> None:
    counter(tmp_path, 4)
    assert made.of(worker(tmp_path), int(signal.SIGTERM)).kind == SIGNAL


def test_a_movement_of_long_ago_explains_nothing(tmp_path: Path) -> None:
    counters = OomCounters([str(counter(tmp_path, 0))])
    counter(tmp_path, 1)
    counters.look(10.0)
    assert counters.claim(10.0 + 2 * causes._CLAIM_S) is None


def test_one_kill_moves_two_counters_and_the_cgroup_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = counter(tmp_path, 8, "vmstat")
    monkeypatch.setattr(causes, "_VMSTAT", str(machine))
    counters = OomCounters([str(counter(tmp_path, 0)), str(machine)])
    counter(tmp_path, 1)
    counter(tmp_path, 9, "vmstat")
    claimed = counters.claim(1.0)
    assert claimed is not None and claimed["counter"].endswith("memory.oom_control")
    assert counters.claim(1.0) is None


def test_a_cgroup_made_for_one_worker_can_be_watched_for_its_time(tmp_path: Path) -> None:
    counters = OomCounters([])
    path = str(counter(tmp_path, 0))
    counters.watch(path)
    counter(tmp_path, 1)
    assert counters.claim(1.0) is not None
    counter(tmp_path, 2)
    counters.look(1.0)
    counters.unwatch(path)
    assert counters.claim(1.0) is None


@pytest.mark.parametrize(
    ("membership", "file"),
    [
        ("4:memory:/my/group\n1:cpu:/\n0::/\n", "memory/my/group/memory.oom_control"),
        ("4:cpu,memory:/host/path\n", "memory/memory.oom_control"),
        ("0::/user.slice/mine\n", "user.slice/mine/memory.events"),
        ("0::/user.slice/mine\n", "unified/user.slice/mine/memory.events"),
        ("0::/host/path\n", "memory.events"),
    ],
)
def test_the_counter_of_a_cgroup_is_found_in_either_version(
    tmp_path: Path, membership: str, file: str
) -> None:
    (tmp_path / "cgroup").write_text(membership)
    path = tmp_path / "root" / file
    path.parent.mkdir(parents=True)
    path.write_text("low 0\noom 0\noom_kill 0\n")
    # Alone: the machine's counter moves when a process in somebody else's cgroup is killed, too.
    assert own_counters(str(tmp_path / "cgroup"), str(tmp_path / "root")) == [str(path)]


def test_a_machine_without_cgroups_has_the_machines_counter(tmp_path: Path) -> None:
    assert own_counters(str(tmp_path / "none"), str(tmp_path)) == [VMSTAT]


# ---------------------------------------------------------------------- groups of workers' own
def group(folder: Path, name: str, count: int = 0, file: str = "memory.oom_control") -> str:
    (folder / name).mkdir(parents=True, exist_ok=True)
    return str(counter(folder / name, count, file))


def test_a_kill_in_a_group_of_a_workers_own_explains_that_workers_death_only(tmp_path: Path) -> None:
    home, own = group(tmp_path, "home"), group(tmp_path, "own")
    counters = OomCounters([home], machine="/nowhere")
    counters.watch(own)
    group(tmp_path, "own", 1)
    assert counters.claim(1.0, "", {own}) is None, "a worker in the node's group was killed by something else"
    claimed = counters.claim(1.0, own, {own})
    assert claimed is not None and claimed["counter"] == own
    group(tmp_path, "home", 1)
    assert counters.claim(1.0, own, {own}) is None, "that kill was of another process"
    assert counters.claim(1.0, "", {own}) is not None


def test_a_kill_that_the_groups_around_count_too_is_used_up_in_all(tmp_path: Path) -> None:
    home, own = group(tmp_path, "home", 0, "memory.events"), group(tmp_path, "home/own", 0, "memory.events")
    counters = OomCounters([home], machine="/nowhere")
    counters.watch(own)
    group(tmp_path, "home", 1, "memory.events")
    group(tmp_path, "home/own", 1, "memory.events")
    assert counters.claim(1.0, own, {own}) is not None
    assert counters.claim(1.0, "", {own}) is None


def test_a_movement_of_the_machines_counter_is_told_as_a_hint(tmp_path: Path) -> None:
    machine = counter(tmp_path, 8, "vmstat")
    made = Causes(str(tmp_path))
    made.oom = OomCounters([group(tmp_path, "home")], machine=str(machine))
    counter(tmp_path, 9, "vmstat")
    hinted, plain = (made.of(worker(tmp_path), KILLED) for _ in range(2))
    assert hinted.kind == plain.kind == SIGNAL
    assert "It may have been this one" in hinted.text() and "went from 8 to 9" in hinted.text()
    assert "killed a process" not in plain.text()


def test_a_known_kill_leaves_no_hint_for_the_next_death(tmp_path: Path) -> None:
    machine = counter(tmp_path, 8, "vmstat")
    made = Causes(str(tmp_path))
    made.oom = OomCounters([group(tmp_path, "home")], machine=str(machine))
    counter(tmp_path, 9, "vmstat")
    group(tmp_path, "home", 1)
    assert made.of(worker(tmp_path), KILLED).kind == KERNEL_OOM
    assert "killed a process" not in made.of(worker(tmp_path), KILLED).text()


# ---------------------------------------------------------------------- last words
def test_a_fault_is_shown_by_the_stack_of_its_thread_without_our_frames() -> None:
    found = fault_lines(DUMP.format(ours=causes._OURS).splitlines())
    assert found == [
        "Fatal Python error: Segmentation fault",
        "Current thread 0x00007f02 (most recent call first):",
        '  File "/home/me/resize.py", line 12 in crash',
    ]


def test_a_dump_of_long_ago_is_not_taken_for_the_cause_of_another_end(tmp_path: Path) -> None:
    path = tmp_path / "worker.err"
    path.write_text(DUMP.format(ours=causes._OURS) + "no more disk\n")
    assert "Fatal Python error" in last_words(str(path), SEGFAULT)
    words = last_words(str(path), None)
    assert words.startswith("The end of its error output:\n") and words.endswith("  no more disk")


def test_what_an_earlier_task_printed_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "worker.err"
    path.write_bytes(mark("name=first") + b"\nold news\n" + mark("name=second") + b"\nthe end is near\n")
    assert last_words(str(path), None) == "The end of its error output:\n  the end is near"


def test_no_output_is_no_evidence(tmp_path: Path) -> None:
    assert last_words(str(tmp_path / "none.err"), None) == ""


# ---------------------------------------------------------------------- the flight recorder
@dataclass
class Sample:
    task_id: bytes
    at: float
    own_bytes: int
    line: str


@pytest.mark.parametrize(("sampled", "shown"), [(b"\x07" * 16, True), (b"\x06" * 16, False)])
def test_the_last_line_is_shown_if_it_is_of_the_task_begun_last(
    made: Causes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sampled: bytes, shown: bool
) -> None:
    ring = events.Ring(str(tmp_path / f"{'01' * 8}.ring"), 4, "worker")
    ring.started(b"\x07" * 16, 1.0, 0)
    ring.close()
    sample = Sample(sampled, 2.0, 0, "resize.py:12 in shrink")
    monkeypatch.setattr(events, "last_sample", lambda path: sample, raising=False)
    cause = made.of(worker(tmp_path), KILLED)
    assert cause.last_task == "07" * 16
    assert ("last seen at resize.py:12 in shrink" in cause.text()) is shown


def test_the_stack_of_a_fault_stands_alone(
    made: Causes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = events.Ring(str(tmp_path / f"{'01' * 8}.ring"), 4, "worker")
    ring.started(b"\x07" * 16, 1.0, 0)
    ring.close()
    sample = Sample(b"\x07" * 16, 2.0, 0, "<frozen importlib>:147 _path_stat")
    monkeypatch.setattr(events, "last_sample", lambda path: sample, raising=False)
    dead = worker(tmp_path)
    Path(dead.err_path).write_text(DUMP)
    cause = made.of(dead, SEGFAULT)
    assert cause.last_line == ""
    assert "Fatal Python error" in cause.text()
