"""Which log is meant by a name, a task, an actor, a process or a job, and its bytes in pieces."""

from __future__ import annotations

from pathlib import Path

import pytest

from sundog.util.state import logs
from sundog.util.state.exception import RayStateApiException

WORKER, OTHER, DRIVER = "aa" * 8, "bb" * 8, "dd" * 8


def _process(worker_id: str, pid: int, actor: str = "", name: str = "", worker: bool = True) -> logs._Process:
    return logs._Process(worker_id, pid, worker, "01000000", actor, name, "Model" if actor else "")


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A session with two workers, the first of them an actor twice, and a driver."""
    folder = tmp_path / "logs"
    folder.mkdir()
    for name in (f"worker-{WORKER}.out", f"worker-{WORKER}.err", f"worker-{OTHER}.out", "node.log"):
        (folder / name).write_text(f"{name}\n")
    (folder / "job-driver-train.log").write_text("step 1\nstep 2\n")
    rows = [_process(WORKER, 11, "ac" * 16, "model"), _process(OTHER, 12), _process(DRIVER, 10, worker=False)]
    monkeypatch.setattr(logs, "_processes", lambda _path: rows)
    monkeypatch.setattr(logs, "is_alive", lambda _path: False)
    return str(tmp_path)


def test_files_are_named_by_their_group_and_by_a_pattern(session: str) -> None:
    assert logs.files_of(session, "*") == {
        "worker_out": [f"worker-{WORKER}.out", f"worker-{OTHER}.out"],
        "worker_err": [f"worker-{WORKER}.err"],
        "driver": ["job-driver-train.log"],
        "internal": ["node.log"],
    }
    assert logs.files_of(session, "*.err") == {"worker_err": [f"worker-{WORKER}.err"]}


@pytest.mark.parametrize("name", ["nothing.log", "../secret", "/etc/passwd", "."])
def test_a_file_outside_of_the_folder_or_none_is_no_log(session: str, name: str) -> None:
    (Path(session) / "secret").touch()
    with pytest.raises(RayStateApiException, match="There is no log"):
        logs.log_named(session, name)


def test_a_link_that_leads_out_of_the_folder_is_no_log(session: str) -> None:
    (Path(session) / "secret").touch()
    (Path(session) / "logs" / "link.log").symlink_to(Path(session) / "secret")
    with pytest.raises(RayStateApiException, match="There is no log"):
        logs.log_named(session, "link.log")


@pytest.mark.parametrize("wanted", ["model", "ac" * 16, "acacac"])
def test_an_actor_is_meant_by_its_name_its_id_or_the_beginning_of_that(session: str, wanted: str) -> None:
    [log] = logs.logs_of_actor(session, wanted, "err")
    assert (log.title, Path(log.path).name) == ("Model pid 11", f"worker-{WORKER}.err")


def test_few_digits_of_an_id_mean_nothing(session: str) -> None:
    with pytest.raises(RayStateApiException, match="There is no actor acac"):
        logs.logs_of_actor(session, "acac", "out")


def test_a_process_is_meant_by_its_pid_or_its_id(session: str) -> None:
    for wanted in ("12", OTHER):
        [log] = logs.logs_of_worker(session, wanted, "out")
        assert Path(log.path).name == f"worker-{OTHER}.out"


def test_a_job_has_the_logs_of_all_its_workers(session: str) -> None:
    assert [log.title for log in logs.logs_of_job(session, "01000000", "out")] == [
        "Model pid 11",
        "worker pid 12",
    ]


def test_why_there_is_no_log_is_told(session: str) -> None:
    for wanted, text in (
        ("10", "is a driver, which prints to its own terminal"),
        ("99", "no process 99 in this session"),
    ):
        with pytest.raises(RayStateApiException, match=text):
            logs.logs_of_worker(session, wanted, "out")
    with pytest.raises(RayStateApiException, match="removed to save room"):
        logs.logs_of_worker(session, "12", "err")
    with pytest.raises(RayStateApiException, match="no submitted job 'other'"):
        logs.logs_of_driver(session, "other")


def test_a_task_has_a_log_for_each_attempt_that_ran(session: str, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [logs._Run(0, WORKER, 11), logs._Run(1, OTHER, 12), logs._Run(2, "", 0, "PENDING")]
    monkeypatch.setattr(logs, "_runs_recorded", lambda _path, _task: runs)
    found = logs.logs_of_task(session, "ef" * 16, "out")
    assert [(log.title, log.task, log.attempt) for log in found] == [
        ("attempt 0 in pid 11", "ef" * 16, 0),
        ("attempt 1 in pid 12", "ef" * 16, 1),
    ]
    assert [log.attempt for log in logs.logs_of_task(session, "ef" * 16, "out", attempt=1)] == [1]
    with pytest.raises(RayStateApiException, match="has not run in any process: it is PENDING"):
        logs.logs_of_task(session, "ef" * 16, "out", attempt=2)
    with pytest.raises(
        RayStateApiException, match=r"no attempt 7 of task e.*: its attempts are 0 to 2\. Lists"
    ):
        logs.logs_of_task(session, "ef" * 16, "out", attempt=7)


def test_a_word_that_is_no_id_has_no_runs(session: str) -> None:
    assert logs._runs_recorded(session, "resize") == []


def test_the_end_of_a_log_is_as_many_lines_as_asked_for(session: str) -> None:
    [log] = logs.logs_of_driver(session)
    assert b"".join(logs.pieces(log)) == b"step 1\nstep 2\n"
    assert b"".join(logs.pieces(log, 1)) == b"step 2\n" and b"".join(logs.pieces(log, 0)) == b""


def test_a_log_that_is_followed_goes_on_with_what_is_written_later(session: str) -> None:
    [log] = logs.logs_of_driver(session)
    lines = logs.pieces(log, 1, follow=True, interval_s=0.001)
    assert next(lines) == b"step 2\n"
    with open(log.path, "a") as file:
        file.write("step 3\n")
    assert next(lines) == b"step 3\n"
    lines.close()  # type: ignore[attr-defined]


def test_lines_travel_in_chunks_of_whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_CHUNK_BYTES", 5)
    assert list(logs._chunks(iter([b"abc\n", b"de\n", b"f\n"]))) == [b"abc\nde\n", b"f\n"]


def test_a_node_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "get_node", lambda _node, _address: None)
    with pytest.raises(RayStateApiException, match="There is no node ab"):
        logs._check_node(None, "ab", None)
    with pytest.raises(RayStateApiException, match=r"no node with the address 10\.0\.0\.1"):
        logs._check_node(None, None, "10.0.0.1")
    logs._check_node(None, None, "127.0.0.1")
