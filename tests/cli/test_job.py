"""`sundog job`: what the terminal shows, with a client that stands for the head process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from sundog.cli import exits
from sundog.job_submission import JobDetails
from sundog.jobs.rows import JobStatus

Sundog = Callable[..., Result]


class Client:
    """One job, whose next states are given."""

    def __init__(self) -> None:
        self.submitted: list[dict[str, Any]] = []
        self.status = "SUCCEEDED"
        self.failure: Exception | None = None
        self.headers: dict[str, str] | None = None

    def submit_job(self, **asked: Any) -> str:
        if self.failure:
            raise self.failure
        self.submitted.append(asked)
        return "a"

    def get_job_info(self, _job_id: str) -> JobDetails:
        if self.failure:
            raise self.failure
        return JobDetails(
            JobStatus(self.status), "x", "A sentence.", submission_id="a", entrypoint_pid=7, start_time=1
        )

    def list_jobs(self) -> list[JobDetails]:
        return [self.get_job_info("a")]

    def stop_job(self, _job_id: str) -> bool:
        return self.status == "RUNNING"

    def delete_job(self, _job_id: str) -> bool:
        return True

    def get_job_logs(self, _job_id: str) -> str:
        return "printed\n"

    def get_job_records(self, _job_id: str) -> bytes:
        return b"records"

    def follow_logs(self, _job_id: str) -> Iterator[str]:
        yield "printed\n"

    def get_session_name(self) -> str:
        return "session_1"

    def get_address(self) -> str:
        return "http://127.0.0.1:8265"


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    import sundog.job_submission

    made = Client()

    def connect(address: str | None, headers: dict[str, str] | None) -> Client:
        made.headers = headers
        return made

    monkeypatch.setattr(sundog.job_submission, "JobSubmissionClient", connect)
    return made


def test_submitting_says_where_the_job_went_and_shows_what_it_prints(sundog: Sundog, client: Client) -> None:
    done = sundog("job", "submit", "--submission-id", "a", "--", "python", "x y.py", "--flag")
    assert "Job a went to session_1 at http://127.0.0.1:8265 (pid 7)." in done.stdout
    assert "printed" in done.stdout and "SUCCEEDED" in done.stderr and done.exit_code == exits.OK
    assert client.submitted[0]["entrypoint"] == "python 'x y.py' --flag"


def test_a_failed_job_is_a_failed_command(sundog: Sundog, client: Client) -> None:
    client.status = "FAILED"
    assert sundog("job", "submit", "--", "false").exit_code == exits.FAILED
    assert sundog("job", "submit", "--no-wait", "--", "false").exit_code == exits.OK
    assert sundog("job", "logs", "-f", "a").exit_code == exits.FAILED


def test_every_option_reaches_the_job(sundog: Sundog, client: Client) -> None:
    sundog(
        *("job", "submit", "--working-dir", ".", "--runtime-env-json", '{"env_vars": {"A": "1"}}'),
        *(
            "--metadata-json",
            '{"m": "n"}',
            "--entrypoint-num-cpus",
            "1",
            "--entrypoint-resources",
            '{"d": 1}',
            "--entrypoint-label-selector",
            '{"zone": "a"}',
        ),
        *("--entrypoint-memory", "5", "--entrypoint-num-gpus", "0.5", "--no-wait", "--", "true"),
    )
    (asked,) = client.submitted
    assert asked["runtime_env"] == {"env_vars": {"A": "1"}, "working_dir": "."}
    assert (asked["metadata"], asked["entrypoint_resources"]) == ({"m": "n"}, {"d": 1})
    assert asked["entrypoint_label_selector"] == {"zone": "a"}
    assert (asked["entrypoint_num_cpus"], asked["entrypoint_memory"]) == (1.0, 5)


def test_flags_of_ray_that_mean_nothing_here_are_taken(sundog: Sundog, client: Client) -> None:
    styles = ("--log-style", "pretty", "--log-color", "false", "-v", "--verify", "False")
    assert sundog("job", "status", *styles, "a").exit_code == exits.OK
    assert "--log-style" not in sundog("job", "status", "--help").stdout
    assert sundog("stop", *styles[:5], "--help").exit_code == exits.OK


def test_headers_come_from_the_command_line_or_the_environment(
    sundog: Sundog, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    sundog("job", "status", "a")
    assert client.headers is None
    monkeypatch.setenv("RAY_JOB_HEADERS", '{"Who": "shell"}')
    sundog("job", "status", "a")
    assert client.headers == {"Who": "shell"}
    sundog("job", "status", "--headers", '{"Who": "flag"}', "a")
    assert client.headers == {"Who": "flag"}
    assert sundog("job", "status", "--headers", "[]", "a").exit_code == exits.USAGE


def test_the_environment_can_come_from_a_file(sundog: Sundog, client: Client, tmp_path: Any) -> None:
    (tmp_path / "env.yaml").write_text("env_vars:\n  A: '1'\n")
    sundog("job", "submit", "--runtime-env", str(tmp_path / "env.yaml"), "--no-wait", "--", "true")
    assert client.submitted[0]["runtime_env"] == {"env_vars": {"A": "1"}}


@pytest.mark.parametrize(
    "words",
    [
        ("--runtime-env-json", "{"),
        ("--metadata-json", "[]"),
        ("--runtime-env", "/x", "--runtime-env-json", "{}"),
        ("--runtime-env", "/no/such/file"),
    ],
)
def test_a_wrong_value_is_one_sentence(sundog: Sundog, client: Client, words: tuple[str, ...]) -> None:
    done = sundog("job", "submit", *words, "--", "true")
    assert done.exit_code in (exits.USAGE, exits.FAILED) and not client.submitted


def test_the_other_verbs_show_the_job(sundog: Sundog, client: Client) -> None:
    assert sundog("job", "status", "a").stdout == "Job a: SUCCEEDED. A sentence.\n"
    assert sundog("job", "stop", "a").stdout == "Job a: SUCCEEDED. A sentence.\n"
    assert sundog("job", "logs", "a").stdout == "printed\n"
    assert sundog("job", "delete", "a").stdout == "Job a is deleted.\n"
    assert "A sentence." in sundog("job", "list").stdout


def test_a_refusal_is_one_sentence(sundog: Sundog, client: Client) -> None:
    client.failure = RuntimeError("There is no such job.")
    done = sundog("job", "status", "a")
    assert (done.exit_code, done.stderr) == (exits.FAILED, "sundog: There is no such job.\n")


def test_without_a_head_it_says_what_to_start(sundog: Sundog) -> None:
    done = sundog("job", "list")
    assert done.exit_code == exits.NO_SESSION and "sundog start --head" in done.stderr


def test_the_records_that_a_job_left_are_for_the_user_alone(
    sundog: Sundog, client: Client, tmp_path: Path
) -> None:
    before = os.umask(0)
    try:
        done = sundog("job", "records", "a", "--output", str(tmp_path / "a.sundog"))
    finally:
        os.umask(before)
    assert done.exit_code == exits.OK and (tmp_path / "a.sundog").read_bytes() == b"records"
    assert (tmp_path / "a.sundog").stat().st_mode & 0o777 == 0o600
