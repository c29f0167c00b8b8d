"""The client of jobs against a small HTTP server: what it sends, and what it makes of the answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sundog.job_submission import JobDetails, JobStatus, JobSubmissionClient, JobType

VERSION = {"version": "4", "ray_version": "2.60.0", "session_name": "session_1", "sundog_version": "0.1"}
JOB = {"type": "SUBMISSION", "status": "FAILED", "entrypoint": "x", "submission_id": "a", "later_field": 1}


class Server(ThreadingHTTPServer):
    """Answers what it is told to, and notes what it was asked."""

    daemon_threads = True
    answers: dict[tuple[str, str], tuple[int, bytes]]
    asked: list[tuple[str, str, dict[str, str], bytes]]


class Handler(BaseHTTPRequestHandler):
    def _answer(self) -> None:
        server = self.server
        assert isinstance(server, Server)
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        server.asked.append((self.command, self.path, dict(self.headers), body))
        status, answer = server.answers.get((self.command, self.path), (404, b"nothing here"))
        self.send_response(status)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = do_PUT = do_DELETE = _answer

    def log_message(self, *_args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(("127.0.0.1", 0), Handler)
    made.answers = {("GET", "/api/version"): (200, json.dumps(VERSION).encode())}
    made.asked = []
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def _client(server: Server, **how: Any) -> JobSubmissionClient:
    return JobSubmissionClient(f"http://127.0.0.1:{server.server_port}", **how)


def _say(server: Server, method: str, path: str, answer: object, status: int = 200) -> None:
    body = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
    server.answers[method, path] = (status, body)


def test_every_verb_is_its_request(server: Server) -> None:
    client = _client(server)
    _say(server, "POST", "/api/jobs/", {"submission_id": "a", "job_id": "a"})
    _say(server, "GET", "/api/jobs/a", JOB)
    _say(server, "GET", "/api/jobs/", [JOB])
    _say(server, "POST", "/api/jobs/a/stop", {"stopped": True})
    _say(server, "DELETE", "/api/jobs/a", {"deleted": True})
    _say(server, "GET", "/api/jobs/a/logs", {"logs": "hi\n"})
    _say(server, "GET", "/api/jobs/a/logs/follow", "hé\n")
    assert client.submit_job(entrypoint="x", metadata={"k": "v"}) == "a"
    assert json.loads(server.asked[-1][3]) == {"entrypoint": "x", "runtime_env": {}, "metadata": {"k": "v"}}
    found = client.get_job_info("a")
    assert (found.status, found.type, found.submission_id) == (JobStatus.FAILED, JobType.SUBMISSION, "a")
    assert client.get_job_status("a") == "FAILED" and [each.entrypoint for each in client.list_jobs()] == [
        "x"
    ]
    assert client.stop_job("a") and client.delete_job("a")
    assert client.get_job_logs("a") == "hi\n" and "".join(client.follow_logs("a")) == "hé\n"
    assert client.get_version() == "4" and client.get_session_name() == "session_1"


def test_a_refusal_is_a_runtime_error_with_its_words(server: Server) -> None:
    client = _client(server)
    _say(server, "GET", "/api/jobs/a", "no such job", 404)
    with pytest.raises(RuntimeError, match="no such job"):
        client.get_job_info("a")
    with pytest.raises(RuntimeError, match="nothing here"):
        list(client.follow_logs("b"))
    _say(server, "GET", "/api/version", "no token", 401)
    with pytest.raises(RuntimeError, match=r"401.*no token"):
        _client(server)


def test_an_id_cannot_become_another_address(server: Server) -> None:
    client = _client(server)
    with pytest.raises(RuntimeError):
        client.get_job_info("../version")
    assert server.asked[-1][1] == "/api/jobs/..%2Fversion"


def test_headers_cookies_and_the_token_are_sent(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "given-by-the-user")
    _client(server, headers={"X-A": "1"}, cookies={"c": "2"})
    headers = server.asked[-1][2]
    assert (headers["X-A"], headers["Cookie"]) == ("1", "c=2")
    assert headers["Authorization"] == "Bearer given-by-the-user"


def test_a_folder_is_uploaded_to_a_head_that_does_not_see_it(server: Server, tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("1")
    client = _client(server)
    _say(server, "POST", "/api/jobs/", {"submission_id": "a", "job_id": "a"})
    with pytest.raises(RuntimeError):  # this server takes no package
        client.submit_job(entrypoint="x", runtime_env={"working_dir": str(tmp_path)})
    method, path, _, body = server.asked[-1]
    assert method == "PUT" and path.startswith("/api/packages/gcs/_sundog_pkg_") and body[:2] == b"PK"
    _say(server, "GET", path, "")
    client.submit_job(entrypoint="x", runtime_env={"working_dir": str(tmp_path)})
    assert json.loads(server.asked[-1][3])["runtime_env"]["working_dir"] == f"gcs://{path.rpartition('/')[2]}"


def test_nobody_there_is_a_connection_error_that_says_what_to_start() -> None:
    with pytest.raises(ConnectionError, match="sundog start --head"):
        JobSubmissionClient("http://127.0.0.1:1")
    with pytest.raises(ConnectionError, match="sundog start --head"):
        JobSubmissionClient()


def test_wrong_kinds_of_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match="headers"):
        JobSubmissionClient("http://127.0.0.1:1", headers=[])  # type: ignore[arg-type]


def test_a_ray_cluster_gets_sundog_along_and_refuses_limits(server: Server, tmp_path: Path) -> None:
    theirs = {name: value for name, value in VERSION.items() if name != "sundog_version"}
    server.answers["GET", "/api/version"] = (200, json.dumps(theirs).encode())
    server.answers["POST", "/api/jobs/"] = (200, json.dumps({"submission_id": "a"}).encode())
    client = JobSubmissionClient(f"http://127.0.0.1:{server.server_port}")
    assert client.is_ray
    with pytest.raises(RuntimeError, match="cpus="):
        client.submit_job(entrypoint="x", cpus=2)
    there = {"py_modules": ["gcs://sundog"]}
    assert client.submit_job(entrypoint="x", runtime_env=there) == "a"
    sent = json.loads(server.asked[-1][3])
    assert sent["runtime_env"] == {**there, "env_vars": {"SUNDOG_ENGINE": "ray"}}


def test_details_are_told_as_a_dict_and_as_json_like_rays() -> None:
    driver = {"id": "d", "node_ip_address": "127.0.0.1", "pid": "7"}
    details = JobDetails.of({**JOB, "driver_info": driver})
    shown = details.dict()
    assert (shown["status"], shown["submission_id"], shown["driver_info"]) == ("FAILED", "a", driver)
    assert json.loads(details.json()) == json.loads(details.model_dump_json())
    assert json.loads(details.json())["type"] == "SUBMISSION"
    assert details.driver_info is not None and details.driver_info.model_dump() == driver
