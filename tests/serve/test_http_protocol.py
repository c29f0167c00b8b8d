"""What a proxy makes of the bytes of one connection: which way requests take, and which clients are refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from sundog.serve import http_protocol
from sundog.serve.body_reader import BodyReader
from sundog.serve.http_protocol import CALL, HEAD_MAX_BYTES, BoundedProtocol, HttpConnection

uvicorn = pytest.importorskip("uvicorn")
HEAD = b"GET /buy?kind=tea HTTP/1.1\r\nhost: x\r\n"
VALUES = ("GET", "http", "/buy", b"/buy", b"kind=tea", "", None, None)


class FakeTransport(asyncio.Transport):
    """A connection of which nothing leaves this process."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.protocol: object = None
        self.is_closed = self.is_ended = False

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.is_ended = True

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def set_protocol(self, protocol: object) -> None:
        self.protocol = protocol


class FakeQuick:
    """A request on the short way."""

    keeps = True

    def __init__(self) -> None:
        self.told: list[str] = []

    def lost(self) -> None:
        self.told.append("lost")

    def take_long_way(self) -> None:
        self.told.append("long way")


class FakeBodies:
    def take(self, _length: int) -> None:
        return None


class FakeOptions:
    head_timeout_s = 0.001


class FakeFront:
    """A proxy's app: notes the requests that come the long way, and their bodies."""

    has_short_way = True
    bodies = FakeBodies()

    def __init__(self) -> None:
        self.scopes: list[Any] = []
        self.asked: list[bytes] = []
        self.is_answered = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scopes.append(scope)
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        self.asked.append(body)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})
        self.is_answered.set()


class HurriedFront(FakeFront):
    options = FakeOptions()


class Scene:
    """One connection to a proxy."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, front: Any = None, root_path: str = "") -> None:
        self.front = front or FakeFront()
        self.quick: FakeQuick | None = FakeQuick()
        self.begun: list[tuple[str, Any, bytes, bytes | None]] = []
        config = uvicorn.Config(self.front, log_config=None, lifespan="off", root_path=root_path)
        config.load()
        config.loaded_app = self.front
        from uvicorn.server import ServerState

        self.state = ServerState()
        loop = asyncio.get_running_loop()
        self.protocol = BoundedProtocol(config, self.state, {}, loop)
        self.transport = FakeTransport()
        self.protocol.connection_made(self.transport)
        monkeypatch.setattr(http_protocol, "begin_quick", self.begin_quick)
        monkeypatch.setattr(http_protocol, "scope_values", lambda _protocol, _method: (None, VALUES))

    def begin_quick(
        self, _front: Any, _protocol: Any, method: str, headers: Any, body: Any, request_id: bytes | None
    ) -> tuple[FakeQuick | None, Any]:
        self.begun.append((method, headers, bytes(body), request_id))
        return self.quick, VALUES

    def send(self, *parts: bytes) -> None:
        for part in parts:
            self.protocol.data_received(part)

    def end(self) -> None:
        self.transport.is_closed = True
        self.protocol.connection_lost(None)


Story = Callable[[Callable[..., Scene]], Awaitable[None]]


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[[Story], None]:
    def run(story: Story) -> None:
        async def whole() -> None:
            made: list[Scene] = []

            def scene(*given: Any, **named: Any) -> Scene:
                made.append(Scene(monkeypatch, *given, **named))
                return made[-1]

            await story(scene)
            for each in made:
                each.end()

        asyncio.run(whole())

    return run


# ---------------------------------------------------------------------- the two ways
def test_a_plain_request_takes_the_short_way_with_its_whole_body(play: Callable[[Story], None]) -> None:
    async def story(scene: Callable[..., Scene]) -> None:
        one = scene()
        one.send(b"POST / HTTP/1.1\r\nX-Request-ID: me\r\nContent-Length: 8\r\n\r\ngree", b"n te")
        ((method, headers, body, request_id),) = one.begun
        assert (method, body, request_id) == ("POST", b"green te", b"me")
        assert (b"x-request-id", b"me") in headers and one.front.scopes == []
        one.protocol.finish_quick(b"answer", True)
        assert one.transport.written == [b"answer"] and not one.transport.is_closed
        assert one.state.total_requests == 1

    play(story)


@pytest.mark.parametrize(
    "special",
    [
        b"x-request-timeout-seconds: 3\r\n",
        b"serve-multiplexed-model-id: m\r\n",
        b"serve_multiplexed_model_id: m\r\n",
        b"x-session-id: s\r\n",
        b"X-Forwarded-For: 10.0.0.1\r\n",
        b"connection: upgrade\r\nupgrade: other\r\n",
    ],
)
def test_a_request_that_needs_more_takes_the_long_way(play: Callable[[Story], None], special: bytes) -> None:
    async def story(scene: Callable[..., Scene]) -> None:
        one = scene()
        one.send(HEAD + special + b"\r\n")
        await one.front.is_answered.wait()
        assert one.begun == [] and one.front.scopes[0]["path"] == "/buy"

    play(story)


def test_an_older_client_and_a_proxy_with_a_root_path_take_the_long_way(
    play: Callable[[Story], None],
) -> None:
    async def story(scene: Callable[..., Scene]) -> None:
        for one, head in (
            (scene(), b"GET / HTTP/1.0\r\nhost: x\r\n\r\n"),
            (scene(root_path="/below"), HEAD + b"\r\n"),
        ):
            one.send(head)
            await one.front.is_answered.wait()
            assert one.begun == [] and len(one.front.scopes) == 1

    play(story)


def test_a_request_that_no_replica_takes_at_once_goes_the_long_way_with_its_body(
    play: Callable[[Story], None],
) -> None:
    async def story(scene: Callable[..., Scene]) -> None:
        one = scene()
        one.quick = None
        one.send(b"POST / HTTP/1.1\r\ncontent-length: 3\r\n\r\ntea")
        await one.front.is_answered.wait()
        assert one.front.asked == [b"tea"] and one.front.scopes[0][CALL] is None
        assert one.front.scopes[0]["query_string"] == b"kind=tea"
        assert b"".join(one.transport.written).endswith(b"ok")

    play(story)


def test_a_body_of_unknown_length_that_comes_in_parts_takes_the_long_way(
    play: Callable[[Story], None],
) -> None:
    async def story(scene: Callable[..., Scene]) -> None:
        one = scene()
        one.send(
            b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\r\ntea\r\n", b"2\r\n, \r\n", b"0\r\n\r\n"
        )
        await one.front.is_answered.wait()
        assert one.begun == [] and one.front.asked == [b"tea, "]

    play(story)


def test_a_long_body_of_known_length_is_read_beside_the_parser(play: Callable[[Story], None]) -> None:
    async def story(scene: Callable[..., Scene]) -> None:
        one = scene()
        one.send(b"POST / HTTP/1.1\r\ncontent-length: 100000\r\n\r\n", b"ab")
        reader = one.transport.protocol
        assert isinstance(reader, BodyReader) and one.begun == []
        one.protocol.body_read(bytearray(b"whole"))
        assert one.begun[0][2] == b"whole" and one.transport.protocol is one.protocol
        one.protocol.finish_quick(b"answer", True)
        one.send(HEAD + b"\r\n")  # a new parser takes the next request
        assert len(one.begun) == 2

    play(story)


@pytest.mark.parametrize("length", [b"4194305", b"9" * 19])
def test_a_body_that_is_too_long_to_wait_for_takes_the_long_way(
    play: Callable[[Story], None], length: bytes
) -> None:
    async def story(scene: Callable[..., Scene]) -> None:
        one = scene()
        one.send(b"POST / HTTP/1.1\r\ncontent-length: " + length + b"\r\n\r\n")
        await asyncio.sleep(0)
        assert one.begun == [] and len(one.front.scopes) == 1

    play(story)


def test_a_second_request_before_the_first_is_answered_sends_the_first_the_long_way(
    play: Callable[[Story], None],
) -> None:
    async def story(scene: Callable[..., Scene]) -> None:
        one = scene()
        assert one.quick is not None
        one.send(HEAD + b"\r\n")
        one.send(HEAD + b"\r\n")
        assert one.quick.told == ["long way"]

    play(story)


# ---------------------------------------------------------------------- the end of a connection
def test_a_client_that_asks_for_it_is_closed_after_its_answer(play: Callable[[Story], None]) -> None:
    async def story(scene: Callable[..., Scene]) -> None:
        one = scene()
        one.send(HEAD + b"connection: close\r\n\r\n")
        assert one.quick is not None and one.quick.keeps is False
        one.protocol.finish_quick(b"answer", False)
        assert one.transport.written == [b"answer"] and one.transport.is_closed
        one.protocol.finish_quick(b"too late", False)
        assert one.transport.written == [b"answer"]

    play(story)


def test_a_request_learns_that_its_client_is_gone_on_either_way(play: Callable[[Story], None]) -> None:
    async def story(scene: Callable[..., Scene]) -> None:
        one, told = scene(), []
        assert one.quick is not None
        one.send(HEAD + b"\r\n")
        one.protocol._connection.on_lost = lambda: told.append("lost")
        one.end()
        one.end()
        assert one.quick.told == ["lost"] and told == ["lost"]

    play(story)


def test_a_server_that_ends_lets_a_request_be_answered_first(play: Callable[[Story], None]) -> None:
    async def story(scene: Callable[..., Scene]) -> None:
        busy = scene()
        busy.send(HEAD + b"\r\n")
        idle = scene()
        for each in (busy, idle):
            each.protocol.shutdown()
        assert not busy.transport.is_closed and busy.quick is not None and busy.quick.keeps is False
        assert idle.transport.is_closed

    play(story)


def test_an_idle_connection_is_closed_and_one_with_a_request_is_not(play: Callable[[Story], None]) -> None:
    async def story(scene: Callable[..., Scene]) -> None:
        idle, busy = scene(), scene()
        for each in (idle, busy):
            each.protocol.timeout_keep_alive = 0
            each.send(HEAD + b"\r\n")
        idle.protocol.finish_quick(b"answer", True)
        busy.protocol.timeout_keep_alive = 60
        idle.protocol._look_if_idle()
        busy.protocol._look_if_idle()
        assert idle.transport.is_closed and not busy.transport.is_closed
        assert busy.protocol._idle_timer is not None  # looks again later

    play(story)


# ---------------------------------------------------------------------- bounds
@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (b"GET /" + b"a" * HEAD_MAX_BYTES + b" HTTP/1.1\r\n", b"HTTP/1.1 414 URI Too Long\r\n"),
        (
            HEAD + b"x: " + b"v" * HEAD_MAX_BYTES + b"\r\n\r\n",
            b"HTTP/1.1 431 Request Header Fields Too Large\r\n",
        ),
    ],
)
def test_a_head_that_is_too_long_is_refused_once_and_what_follows_is_dropped(
    play: Callable[[Story], None], sent: bytes, told: bytes
) -> None:
    async def story(scene: Callable[..., Scene]) -> None:
        one = scene()
        one.send(sent, b"more of it", HEAD + b"\r\n")
        (answer,) = one.transport.written
        assert answer.startswith(told) and b"connection: close" in answer
        assert (
            one.transport.is_ended and not one.transport.is_closed
        )  # its bytes are read, or the answer is lost
        assert one.begun == [] and one.front.scopes == []

    play(story)


def test_a_client_that_does_not_send_its_head_in_time_is_refused(play: Callable[[Story], None]) -> None:
    async def story(scene: Callable[..., Scene]) -> None:
        one = scene(HurriedFront())
        one.send(b"GET / HT")
        while not one.transport.written:
            await asyncio.sleep(0.001)
        assert one.transport.written[0].startswith(b"HTTP/1.1 408 Request Timeout\r\n")

    play(story)


def test_a_client_whose_head_is_there_has_time_for_its_body(play: Callable[[Story], None]) -> None:
    async def story(scene: Callable[..., Scene]) -> None:
        one = scene()
        assert one.protocol._head_timer is not None
        one.send(b"POST / HTTP/1.1\r\ncontent-length: 3\r\n\r\n")
        assert one.protocol._head_timer is None
        one.send(b"tea")
        one.protocol.finish_quick(b"answer", True)
        one.send(b"GET / HT")  # the next head
        assert one.protocol._head_timer is not None

    play(story)


# ---------------------------------------------------------------------- the connection
def test_what_is_written_while_it_is_held_leaves_in_one_packet() -> None:
    transport = FakeTransport()
    made = HttpConnection(transport)
    made.write(b"a")
    made.hold()
    made.write(b"b")
    made.write(b"c")
    assert transport.written == [b"a"]
    made.release()
    made.release()
    made.write(b"d")
    assert transport.written == [b"a", b"bc", b"d"]
    made.hold()
    made.write(b"last")
    made.close()
    assert transport.written[-1] == b"last" and cast(Any, made).is_closing()
