"""What is known of a job, and the sentence for how it ended."""

from __future__ import annotations

import pytest

from sundog.jobs.rows import JobRecord, JobStatus, details, ending, from_file, to_file
from sundog.system.job_verdicts import Verdict


@pytest.mark.parametrize(
    ("code", "stopped", "oom", "status", "words"),
    [
        (0, False, 0, "SUCCEEDED", "exit code 0"),
        (3, False, 0, "FAILED", "exit code 3"),
        (-9, False, 0, "FAILED", "SIGKILL"),
        (-9, False, 1, "FAILED", "because memory ran out"),
        (137, False, 1, "FAILED", "because memory ran out"),
        (137, False, 0, "FAILED", "SIGKILL ended its command"),
        (-11, False, 1, "FAILED", "SIGSEGV"),
        (255, False, 0, "FAILED", "exit code 255"),
        (127, False, 0, "FAILED", "exit code 127: the shell says that its command was not found."),
        (-15, True, 0, "STOPPED", "on request"),
        (0, True, 0, "STOPPED", "on request"),
    ],
)
def test_an_end_is_told_by_one_cause(code: int, stopped: bool, oom: int, status: str, words: str) -> None:
    found, text, error, exit_code = ending(code, stopped=stopped, oom_kills=oom)
    assert (found, exit_code) == (status, code)
    assert words in text
    assert (error is not None) == (status == "FAILED")


def test_a_kill_by_the_kernel_in_the_jobs_own_group_is_told_by_its_limit() -> None:
    for code in (-9, 137):
        text = ending(code, stopped=False, oom_kills=1, limit_bytes=100_000_000)[1]
        assert text == (
            "The kernel killed it (SIGKILL): the job used more than its limit of 100 MB (--memory)."
        )
    ended = Verdict(100_000_000, 0, True, 120_000_000)
    assert ending(-9, stopped=False, oom_kills=0, verdict=ended)[1] == ended.text()


def test_a_record_survives_its_file() -> None:
    record = JobRecord(
        "a", "echo", metadata={"k": "v"}, entrypoint_num_cpus=1, entrypoint_resources={"disk": 2}
    )
    assert from_file(to_file(record)) == record
    assert record.resources() == {"CPU": 1.0, "disk": 2.0}
    assert not record.is_over


@pytest.mark.parametrize("facts", [{}, {"submission_id": "a", "entrypoint": "b", "status": "LOST"}, {"x": 1}])
def test_a_file_that_is_no_record_is_refused(facts: dict[str, object]) -> None:
    with pytest.raises((TypeError, ValueError)):
        from_file(facts)


def test_the_details_name_the_session_and_the_driver() -> None:
    driver = {
        "job_id": "01000000",
        "driver_info": {"id": "01000000", "node_ip_address": "127.0.0.1", "pid": "7"},
    }
    found = details(JobRecord("a", "echo", resolved_env={"working_dir": "/x"}), driver, "session_1")
    assert (found["type"], found["job_id"], found["session_name"]) == ("SUBMISSION", "01000000", "session_1")
    assert "resolved_env" not in found
    assert details(JobRecord("a", "echo"), None, "s")["driver_info"] is None


def test_three_states_are_final() -> None:
    assert {each.value for each in JobStatus if each.is_terminal()} == {"STOPPED", "SUCCEEDED", "FAILED"}
