"""Plain requests take a short way through the proxy. Whichever way a request takes, its answer is the same."""

from __future__ import annotations

import http.client
import socket
from types import ModuleType
from typing import Any

import pytest

from sundog import serve
from tests.integration.serve.services import get, start

# A header that only the long way knows.
LONG = {"x-session-id": "somebody"}


class Ways:
    """Answers of all kinds."""

    async def __call__(self, request: Any) -> Any:
        from starlette.responses import JSONResponse, Response, StreamingResponse

        def items() -> Any:
            yield from ("0\n", "1\n", "2\n")

        async def ready() -> Any:
            for each in ("0\n", "1\n", "2\n"):
                yield each

        kind = request.url.path.rpartition("/")[2]
        if kind == "fails":
            raise ValueError("on purpose")
        answers: dict[str, Any] = {
            "text": "ü",
            "bytes": b"\x00\xff",
            "none": None,
            "json": {"a": [1, 2]},
            "large": "x" * 200_000,
            "empty": Response(status_code=204),
            "response": JSONResponse({"a": 1}, 201, {"X-Own": "b", "set-cookie": "c=d"}),
            "closes": Response("bye", headers={"connection": "close"}),
            "stream": StreamingResponse(items()),
            "ready": StreamingResponse(ready(), 202, {"X-Own": "b"}),
            "body": str(len(await request.body())),
            "id": request.headers["x-request-id"],
            "scope": f"{request.url} {request.scope['root_path']} {request.query_params} {request.method}",
        }
        return answers[kind]


KINDS = (
    "text", "bytes", "none", "json", "large", "empty", "response", "closes", "stream", "ready", "body", "scope",
    "fails",
)  # fmt: skip
BODIES = [None, b"x" * 1000, b"x" * 100_000, b"x" * 4_000_000, b"x" * 5_000_000]


@pytest.fixture
def port(ray: ModuleType) -> int:
    found = start()
    serve.run(serve.deployment(ray_actor_options={"num_cpus": 0})(Ways).bind(), route_prefix="/ways")
    return found


def ask(connection: http.client.HTTPConnection, method: str, path: str, body: Any, headers: Any) -> Any:
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    return answer.status, answer.read(), {key.lower(): value for key, value in answer.getheaders()}


def test_both_ways_give_the_same_answers(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    asked = [("GET", kind, None) for kind in KINDS]
    asked += [("HEAD", "text", None), ("DELETE", "scope", None)] + [("POST", "body", body) for body in BODIES]
    for method, kind, body in asked:
        path = f"/ways/{kind}?q=%C3%BC"
        quick = ask(connection, method, path, body, {"x-request-id": "mine"})
        long = ask(connection, method, path, body, {"x-request-id": "mine", **LONG})
        assert quick == long, (method, kind)
        assert quick[2]["x-request-id"] == "mine"
    for path in ("/nowhere", "/-/routes", "/-/healthz", "/way"):
        quick = ask(connection, "GET", path, None, {"x-request-id": "mine"})
        assert quick == ask(connection, "GET", path, None, {"x-request-id": "mine", **LONG})
    connection.close()


def test_requests_that_do_not_wait_for_answers_are_answered_in_order(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=120) as client:
        one = b"GET /ways/scope?number=%d HTTP/1.1\r\nhost: x\r\n%b\r\n"
        ends = [b""] * 9 + [b"connection: close\r\n"]
        client.sendall(b"".join(one % (number, end) for number, end in enumerate(ends)))
        got = b""
        while part := client.recv(65536):
            got += part
    assert got.count(b"HTTP/1.1 200 OK") == 10
    places = [got.index(b"number=%d" % number) for number in range(10)]
    assert places == sorted(places)


def test_a_request_in_pieces_is_one_request(port: int) -> None:
    whole = (
        b"POST /ways/body HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\nconnection: close\r\n\r\n0123456789"
    )
    for size in (1, 7, 60, len(whole) - 1):
        with socket.create_connection(("127.0.0.1", port), timeout=120) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for at in range(0, len(whole), size):
                client.sendall(whole[at : at + size])
            got = b""
            while part := client.recv(65536):
                got += part
        assert got.endswith(b"\r\n\r\n10"), size


def test_a_full_replica_takes_the_request_when_it_has_room(ray: ModuleType) -> None:
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    at = start()

    @serve.deployment(max_ongoing_requests=1, ray_actor_options={"num_cpus": 0})
    async def one_at_a_time() -> str:
        await asyncio.sleep(0.01)
        return "ok"

    serve.run(one_at_a_time.bind())
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: get("/", at)[:2], range(100)))
    assert answers == [(200, "ok")] * 100


class Digest:
    """Answers with what the body is."""

    def __init__(self, may_map: bool) -> None:
        if not may_map:
            from sundog.serve.shared_bodies import BodyReaders

            def refuse(_self: object, place: object) -> bytes:
                raise PermissionError(f"not allowed to map {place}")

            BodyReaders.read = refuse  # type: ignore[assignment,method-assign]

    async def __call__(self, request: Any) -> str:
        import hashlib

        return hashlib.sha256(await request.body()).hexdigest()


@pytest.mark.parametrize("may_map", [True, False])
def test_long_bodies_of_many_clients_at_once_reach_their_own_requests(ray: ModuleType, may_map: bool) -> None:
    import hashlib
    from concurrent.futures import ThreadPoolExecutor

    at = start()
    serve.run(serve.deployment(num_replicas=2, ray_actor_options={"num_cpus": 0})(Digest).bind(may_map))

    def ask(number: int) -> bool:
        body = number.to_bytes(4, "little") * (50_000 + 7_919 * number)
        return get("/", at, "POST", body)[1] == hashlib.sha256(body).hexdigest()

    with ThreadPoolExecutor(20) as threads:
        assert all(threads.map(ask, range(60)))


def test_a_client_that_leaves_before_its_answer_leaves_no_body_for_others(ray: ModuleType) -> None:
    import hashlib

    at = start()
    serve.run(serve.deployment(Digest).bind(True))
    for number in range(40):  # more than there are slots
        body = bytes([number]) * 200_000
        with socket.create_connection(("127.0.0.1", at)) as leaver:
            leaver.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 200000\r\n\r\n" + b"?" * 200_000)
        assert get("/", at, "POST", body)[1] == hashlib.sha256(body).hexdigest()


@pytest.mark.parametrize("sent", [{}, {"x_request_id": "mine"}])
@pytest.mark.parametrize("way", [{}, {"x_session_id": "somebody"}])
def test_the_id_of_a_request_is_among_the_headers_that_its_app_sees(
    port: int, sent: dict[str, str], way: dict[str, str]
) -> None:
    _, text, headers = get("/ways/id", port, **sent, **way)
    assert text == headers["x-request-id"]
    assert not sent or text == "mine"
