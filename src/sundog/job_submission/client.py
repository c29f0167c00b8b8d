"""`JobSubmissionClient`: jobs of a session's head process, over HTTP, with nothing but the standard library.

Owns the requests and their errors, and how the head process is found: by its address, or by the session's own file,
which also has the token. Refuses to send the token to another address than the one it belongs to. Any process and
thread; each request has a connection of its own.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from sundog.config import user_environ
from sundog.engines import heads, sessions
from sundog.job_submission import rays
from sundog.jobs.rows import JobStatus, JobType

if TYPE_CHECKING:
    from sundog.plain import JsonObject

_TIMEOUT_S = 60.0
_PIECE_BYTES = 1 << 16


class _Shown:
    """What programs ask of Ray's rows of the same name, which are pydantic's: themselves as a dict, or as JSON."""

    def model_dump(self) -> JsonObject:
        """All fields, those of the driver as a dict within."""
        return asdict(self)  # type: ignore[call-overload,no-any-return]

    def model_dump_json(self) -> str:
        """All fields as JSON text."""
        return json.dumps(self.model_dump())

    dict = model_dump  # the names before pydantic 2
    json = model_dump_json


@dataclass
class DriverInfo(_Shown):
    """The driver that a job's entrypoint started."""

    id: str
    node_ip_address: str
    pid: str


@dataclass
class JobInfo:
    """What is known of a job. Times are milliseconds of the wall clock."""

    status: JobStatus
    entrypoint: str
    message: str | None = None
    error_type: str | None = None
    start_time: int | None = None
    end_time: int | None = None
    metadata: dict[str, str] | None = None
    runtime_env: JsonObject | None = None
    entrypoint_num_cpus: float | None = None
    entrypoint_num_gpus: float | None = None
    entrypoint_memory: int | None = None
    entrypoint_resources: dict[str, float] | None = None
    driver_agent_http_address: str | None = None
    driver_node_id: str | None = None
    driver_exit_code: int | None = None


@dataclass
class JobDetails(JobInfo, _Shown):
    """What is known of a job and its driver."""

    type: JobType = JobType.SUBMISSION
    job_id: str | None = None
    submission_id: str | None = None
    driver_info: DriverInfo | None = None
    entrypoint_pid: int | None = None
    session_name: str | None = None
    memory: int | None = None
    object_store: int | None = None
    memory_guard: str = ""

    @classmethod
    def of(cls, facts: JsonObject) -> JobDetails:
        """The details that an answer has; fields of a newer server are left out."""
        known = {name: value for name, value in facts.items() if name in cls.__dataclass_fields__}
        known["status"], known["type"] = JobStatus(known["status"]), JobType(known["type"])
        if known.get("driver_info"):
            known["driver_info"] = DriverInfo(**known["driver_info"])
        return cls(**known)


@dataclass
class _Place:
    """A head process that can be asked."""

    url: str
    headers: dict[str, str] = field(default_factory=dict)
    is_local: bool = False  # the head sees the same files as this process


class JobSubmissionClient:
    """Submits jobs to a session and watches them.

    Args:
        address: "http://127.0.0.1:8265"; by default the newest session on this machine that has a head process.
            Also "auto", or a session's name or folder.
        create_cluster_if_needed: accepted; a session is started with `sundog start --head`.
        cookies, headers: sent with each request.
        metadata: of every job.
        verify: accepted; the head process speaks plain HTTP.

    Raises:
        ConnectionError: there is no such head process, or it does not answer.
        RuntimeError: the token is missing or wrong.
    """

    def __init__(
        self,
        address: str | None = None,
        create_cluster_if_needed: bool = False,
        cookies: JsonObject | None = None,
        metadata: JsonObject | None = None,
        headers: JsonObject | None = None,
        verify: str | bool | None = True,
        **_other: object,
    ) -> None:
        for name, value, kind in (
            ("address", address, str),
            ("cookies", cookies, dict),
            ("metadata", metadata, dict),
            ("headers", headers, dict),
        ):
            if value is not None and not isinstance(value, kind):
                raise TypeError(f"{name} must be a {kind.__name__}, not {type(value).__name__}.")
        self._place = _find(address)
        self._metadata = dict(metadata or {})
        if cookies:
            self._place.headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in cookies.items())
        self._place.headers.update(headers or {})
        self._version = self._json("GET", "/api/version")

    def get_address(self) -> str:
        """The address of the head process."""
        return self._place.url

    def get_version(self) -> str:
        """The version of the interface that it speaks."""
        return str(self._version["version"])

    def get_session_name(self) -> str:
        """The session that jobs go to."""
        return str(self._version.get("session_name") or "a Ray cluster")

    @property
    def is_ray(self) -> bool:
        """Whether it is a Ray cluster that answers, and not a head process of sundog's."""
        return rays.is_ray(self._version)

    # ------------------------------------------------------------------ verbs
    def submit_job(
        self,
        *,
        entrypoint: str,
        job_id: str | None = None,
        runtime_env: JsonObject | None = None,
        metadata: dict[str, str] | None = None,
        submission_id: str | None = None,
        entrypoint_num_cpus: int | float | None = None,
        entrypoint_num_gpus: int | float | None = None,
        entrypoint_memory: int | None = None,
        entrypoint_resources: dict[str, float] | None = None,
        entrypoint_label_selector: dict[str, str] | None = None,
        weight: float | None = None,
        cpus: float | None = None,
        memory: int | str | None = None,
        object_store: int | str | None = None,
    ) -> str:
        """Submit a job; returns its submission id at once.

        Args:
            entrypoint: the command, for a shell.
            runtime_env: its environment, and that of the workers of its drivers.
            metadata: any strings by name.
            submission_id: its id; by default one is made. `job_id` is the older name.
            entrypoint_num_cpus, entrypoint_num_gpus, entrypoint_memory, entrypoint_resources: what is reserved for
                the command itself while it runs, beside what its tasks use.
            weight: of the job's share of the CPUs, among other jobs; 1 by default.
            cpus: the most that its tasks and actors may use at a time.
            memory: the most that its command, what this starts and its workers may hold together: bytes, or "2GB".
            object_store: the most that its objects may take of the object store; beyond, its own are spilled.

        Ray's own client says the same by `metadata`: sundog_weight, sundog_cpus, sundog_memory, sundog_object_store.

        Raises:
            RuntimeError: the head process refuses it; the text says why.
        """
        limits = {"weight": weight, "cpus": cpus, "memory": memory, "object_store": object_store}
        if self.is_ray:
            rays.refuse_limits(limits)
            runtime_env = rays.with_sundog(dict(runtime_env or {}))
        asked = {
            "entrypoint": entrypoint,
            "submission_id": submission_id or job_id,
            "runtime_env": self._with_folders(dict(runtime_env or {})),
            "metadata": {**self._metadata, **(metadata or {})},
            "entrypoint_num_cpus": entrypoint_num_cpus,
            "entrypoint_num_gpus": entrypoint_num_gpus,
            "entrypoint_memory": entrypoint_memory,
            "entrypoint_resources": entrypoint_resources,
            "entrypoint_label_selector": entrypoint_label_selector,
            **limits,
        }
        given = {name: value for name, value in asked.items() if value is not None}
        submit = partial(self._submit, given)
        return rays.submitted(submit) if self.is_ray else submit()

    def _submit(self, given: JsonObject) -> str:
        return str(self._json("POST", "/api/jobs/", given)["submission_id"])

    def stop_job(self, job_id: str) -> bool:
        """Ask a job to end: SIGTERM, and SIGKILL after 3 s. Whether it had not ended yet."""
        return bool(self._json("POST", f"/api/jobs/{quote(job_id, '')}/stop")["stopped"])

    def delete_job(self, job_id: str) -> bool:
        """Forget a job that has ended, and its output.

        Raises:
            RuntimeError: there is no such job, or it has not ended.
        """
        return bool(self._json("DELETE", f"/api/jobs/{quote(job_id, '')}")["deleted"])

    def get_job_info(self, job_id: str) -> JobDetails:
        """What is known of a job.

        Raises:
            RuntimeError: there is no such job.
        """
        return JobDetails.of(self._json("GET", f"/api/jobs/{quote(job_id, '')}"))

    def get_job_status(self, job_id: str) -> JobStatus:
        """Where a job is in its life. Raises as `get_job_info`."""
        return self.get_job_info(job_id).status

    def list_jobs(self) -> list[JobDetails]:
        """Every job of the session: submitted ones, then programs that joined by themselves."""
        return [JobDetails.of(each) for each in json.loads(self._answer("GET", "/api/jobs/"))]

    def get_job_logs(self, job_id: str) -> str:
        """All that a job's entrypoint printed."""
        return str(self._json("GET", f"/api/jobs/{quote(job_id, '')}/logs")["logs"])

    def get_job_records(self, job_id: str) -> bytes:
        """The records of a job that ran on a Ray cluster, as `sundog session export` packs them.

        Raises:
            RuntimeError: it left none, or they cannot be had.
        """
        if not self.is_ray:
            raise RuntimeError("The records of this job are in its session. Use: sundog session export FILE")
        asked = self.submit_job(entrypoint=f"python -m sundog.ray_engine.handing {quote(job_id, '')}")
        output = "".join(self.follow_logs(asked))
        self.delete_job(asked)
        from sundog.ray_engine.handing import taken

        found = taken(output)
        if found is None:
            raise RuntimeError(f"The cluster did not return the records of {job_id}: {output.strip()[-500:]}")
        return found

    async def tail_job_logs(self, job_id: str) -> AsyncIterator[str]:
        """What a job's entrypoint prints, as it comes, until its end.

        Raises:
            RuntimeError: there is no such job.
        """
        pieces = self.follow_logs(job_id)
        while True:
            piece = await asyncio.to_thread(next, pieces, None)
            if piece is None:
                return
            yield piece

    def follow_logs(self, job_id: str) -> Iterator[str]:
        """The same, for programs without an event loop."""
        if self.is_ray:
            yield from rays.follow(lambda: self.get_job_logs(job_id), lambda: self.get_job_status(job_id))
            return
        connection, answer = self._open("GET", f"/api/jobs/{quote(job_id, '')}/logs/follow", timeout_s=None)
        try:
            if answer.status != 200:
                raise RuntimeError(_reason(answer.status, answer.read()))
            import codecs

            decoder = codecs.getincrementaldecoder("utf-8")("replace")
            while piece := answer.read1(_PIECE_BYTES):
                if text := decoder.decode(piece):
                    yield text
        finally:
            connection.close()

    # ------------------------------------------------------------------ folders
    def _with_folders(self, runtime_env: JsonObject) -> JsonObject:
        """Folders of this machine, so that the head process finds them: by their full path, or uploaded."""
        if isinstance(runtime_env.get("working_dir"), os.PathLike | str):
            runtime_env["working_dir"] = self._folder(os.fspath(runtime_env["working_dir"]), runtime_env)
        if isinstance(runtime_env.get("py_modules"), list):
            runtime_env["py_modules"] = [
                self._folder(os.fspath(each), runtime_env, os.path.basename(os.path.abspath(os.fspath(each))))
                if isinstance(each, os.PathLike | str)
                else each
                for each in runtime_env["py_modules"]
            ]
        return runtime_env

    def _folder(self, path: str, runtime_env: JsonObject, inside: str = "") -> str:
        if "://" in path:
            return path
        if self._place.is_local:
            return os.path.abspath(path)
        from sundog.job_submission.packages import pack

        name, body = pack(path, runtime_env.get("excludes") or (), inside)
        address = f"/api/packages/gcs/{name}"
        if self._send("GET", address)[0] == 404:
            status, answer = self._send("PUT", address, body)
            if status != 200:
                raise RuntimeError(_reason(status, answer))
        return f"gcs://{name}"

    # ------------------------------------------------------------------ requests
    def _json(self, method: str, path: str, asked: object = None) -> JsonObject:
        found: JsonObject = json.loads(self._answer(method, path, asked))
        return found

    def _answer(self, method: str, path: str, asked: object = None) -> bytes:
        body = json.dumps(asked).encode() if asked is not None else None
        status, answer = self._send(method, path, body, "application/json")
        if status != 200:
            raise RuntimeError(_reason(status, answer))
        return answer

    def _send(
        self, method: str, path: str, body: bytes | None = None, kind: str | None = None
    ) -> tuple[int, bytes]:
        connection, answer = self._open(method, path, body, kind)
        try:
            return answer.status, answer.read()
        finally:
            connection.close()

    def _open(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        kind: str | None = None,
        timeout_s: float | None = _TIMEOUT_S,
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        parts = urlsplit(self._place.url)
        make = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = make(parts.hostname or "", parts.port, timeout=timeout_s)
        headers = dict(self._place.headers)
        if kind:
            headers["Content-Type"] = kind
        try:
            connection.request(method, parts.path.rstrip("/") + path, body, headers)
            return connection, connection.getresponse()
        except OSError as error:
            connection.close()
            raise ConnectionError(
                f"The head process at {self._place.url} does not answer ({error}). Start one with: sundog start --head "
                "(on a Ray cluster this is the dashboard: ray start --head --include-dashboard=true)"
            ) from None


def _reason(status: int, answer: bytes) -> str:
    text = answer.decode("utf-8", "replace").strip()
    if status in (401, 403):
        return f"The head process refuses (HTTP {status}): {text}"
    return text or f"The head process answered with HTTP {status}."


# ---------------------------------------------------------------------- finding
def _find(address: str | None) -> _Place:
    """The head process that an address means.

    Raises:
        ConnectionError: there is none.
    """
    wanted = address or user_environ().get("RAY_API_SERVER_ADDRESS") or _joined() or "auto"
    if wanted.startswith(("http://", "https://")):
        url = wanted.rstrip("/")
        token, is_local = _token_of(url)
        return _Place(url, {"Authorization": f"Bearer {token}"} if token else {}, is_local)
    for info in _candidates(wanted):
        head = heads.read_head(info.path)
        if head is not None:
            return _Place(head.url, {"Authorization": f"Bearer {head.token}"}, True)
    raise ConnectionError(
        f"No session with a head process is found at {wanted!r}: jobs need one. Start one with: sundog start --head"
    )


def _joined() -> str:
    return user_environ().get("SUNDOG_ADDRESS") or user_environ().get("RAY_ADDRESS") or ""


def _candidates(wanted: str) -> list[sessions.SessionInfo]:
    found = sessions.find_sessions()
    if wanted in ("auto", "local"):
        return found
    return [sessions.resolve(wanted)]


def _token_of(url: str) -> tuple[str, bool]:
    """The token for an address: of the session on this machine that listens there, else the one that the user gave."""
    port = urlsplit(url).port
    host = urlsplit(url).hostname or ""
    given = user_environ().get("RAY_AUTH_TOKEN", "")
    if heads.is_loopback(host):
        for info in sessions.find_sessions():
            head = heads.read_head(info.path)
            if head is not None and head.port == port and (not given or given == head.token):
                return head.token, True
    return given, False
