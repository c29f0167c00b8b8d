"""A replica: its life, the requests that it takes and refuses, and how their ends are noted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import pytest

import sundog
from sundog import serve
from sundog.serve import context, replica
from sundog.serve.answers import StreamedAnswer, WholeAnswer
from sundog.serve.calls import Call
from sundog.serve.deployment import DeploymentConfig
from sundog.serve.exceptions import BackPressureError, RayServeException
from sundog.serve.imports import dumps
from sundog.serve.packed_http import pack_request, unpack_answer
from sundog.serve.replica import ReplicaActor, ReplicaBoot
from sundog.serve.rows import Rejection, RequestMetadata
from sundog.serve.schema import LoggingConfig
from sundog.serve.shared_bodies import BodyPlace
from tests.serve.fakes import FakeRegistry, replica_id

META = RequestMetadata("request", "inner", app_name="shop", route="/buy")


class Shop:
    """A deployment of a user's."""

    def __init__(self, stock: int = 3) -> None:
        self.stock, self.told, self.is_ill = stock, [], False  # type: ignore[var-annotated]
        self.gate, self.began = asyncio.Event(), asyncio.Event()

    async def __call__(self, request: Any) -> Any:
        return await self.answer(await request.body())

    async def answer(self, body: bytes) -> Any:
        return {"body": body.decode()}

    async def buy(self, count: int = 1) -> int:
        if count > self.stock:
            raise ValueError("sold out")
        self.stock -= count
        return self.stock

    async def wait(self) -> str:
        self.began.set()
        await self.gate.wait()
        return "waited"

    async def where(self) -> tuple[str, str, str]:
        request = context._get_serve_request_context()
        return request.request_id, request.route, serve.get_replica_context().replica_tag

    async def count(self, until: int) -> AsyncIterator[int]:
        for number in range(until):
            yield number
        if until > 5:
            raise ValueError("too many")

    async def reconfigure(self, user_config: Any, rank: Any) -> None:
        self.told.append((user_config, rank.rank))

    async def check_health(self) -> None:
        if self.is_ill:
            raise RuntimeError("no stock")

    async def record_routing_stats(self) -> dict[str, int]:
        return {"stock": self.stock}


class FakeRuntime:
    def get_node_id(self) -> str:
        return "n1"

    def get_actor_id(self) -> None:
        return None

    def get_worker_id(self) -> str:
        return "w1"


class FakeLog:
    """The access log: status, method and route of every request."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, str]] = []
        self.flushed = 0

    def note(self, _request_id: str, method: str, route: str, status: str, _seconds: float) -> None:
        self.rows.append((status, method, route))

    def flush(self) -> None:
        self.flushed += 1


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> FakeRegistry:
    monkeypatch.setattr(sundog, "get_runtime_context", FakeRuntime)
    monkeypatch.setattr(replica, "configure", lambda *_: "")
    monkeypatch.setattr(replica, "_LIMIT_ANYIO_S", 0.0)
    monkeypatch.setattr(replica, "_IDLE_LOOK_S", 0.0)
    monkeypatch.setattr(context, "_replica", None)
    return FakeRegistry(monkeypatch)


class Scene:
    """A replica that has begun."""

    def __init__(self, definition: Any = Shop, limit: int = 5, *args: object, **config: Any) -> None:
        self.config = DeploymentConfig(max_ongoing_requests=limit, **config)
        code = dumps((definition, args, {}))
        self.actor = ReplicaActor(
            ReplicaBoot(replica_id(), code, self.config, "v1", 2, 3, "", LoggingConfig())
        )
        self.log = FakeLog()

    async def begin(self) -> Any:
        """The user's object."""
        self.facts = await self.actor.initialize()
        self.actor._log = cast(Any, self.log)
        assert self.actor._user is not None
        return self.actor._user.object

    async def http(self, **scope: Any) -> Any:
        full = {"type": "http", "method": "GET", "path": "/buy", "headers": [], "query_string": b""}
        return await self.actor.handle_http(META, cast(Any, {**full, **scope}), b"tea")


def play(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(cast(Any, story()))


def call(method: str, **given: Any) -> RequestMetadata:
    return META._replace(call_method=method, **given)


# ---------------------------------------------------------------------- life
def test_a_replica_is_made_once_however_often_it_is_asked() -> None:
    async def story() -> None:
        scene = Scene(Shop, 5, 7)
        shop = await scene.begin()
        assert shop.stock == 7 and await scene.actor.initialize() is scene.facts
        assert (scene.facts.node_id, scene.facts.actor_id, scene.facts.worker_id) == ("n1", "", "w1")
        found = serve.get_replica_context()
        assert found.servable_object is shop and (found.rank.rank, found.world_size) == (2, 3)
        assert shop.told == [(None, 2)]

    play(story)


def test_a_replica_whose_first_health_check_fails_does_not_begin() -> None:
    class Ill(Shop):
        async def check_health(self) -> None:
            raise RuntimeError("no stock")

    async def story() -> None:
        with pytest.raises(RuntimeError, match="no stock"):
            await Scene(Ill).begin()

    play(story)


def test_health_is_what_the_user_says_and_is_counted(registry: FakeRegistry) -> None:
    async def story() -> None:
        scene = Scene()
        shop = await scene.begin()
        assert await scene.actor.check_health() == {}
        shop.is_ill = True
        with pytest.raises(RuntimeError, match="no stock"):
            await scene.actor.check_health()
        assert list(registry.values("serve_deployment_replica_healthy").values()) == [0]
        assert await scene.actor.routing_stats() == {"stock": 3}
        assert await scene.actor.autoscaling_stats() == {}  # the user records none

    play(story)


def test_a_new_config_is_told_when_no_request_runs_and_new_requests_are_refused_meanwhile() -> None:
    async def story() -> None:
        scene = Scene()
        shop = await scene.begin()
        running = asyncio.ensure_future(scene.actor.handle_request(call("wait")))
        await shop.began.wait()
        config = DeploymentConfig(user_config={"price": 2}, max_ongoing_requests=9)
        changing = asyncio.ensure_future(scene.actor.reconfigure(config, 2, 3))
        await asyncio.sleep(0)
        assert await scene.actor.handle_request(call("buy")) == Rejection(1, False)
        assert len(shop.told) == 1
        shop.gate.set()
        await changing
        assert await running == "waited" and shop.told[1:] == [({"price": 2}, 2)]
        assert await scene.actor.handle_request(call("buy")) == 2

    play(story)


def test_only_a_new_config_a_new_rank_or_another_number_of_replicas_is_told_to_the_user() -> None:
    async def story() -> None:
        scene = Scene()
        shop = await scene.begin()
        await scene.actor.reconfigure(DeploymentConfig(max_ongoing_requests=9), 2, 3)
        assert len(shop.told) == 1
        await scene.actor.reconfigure(DeploymentConfig(), 0, 3)
        assert shop.told[1:] == [(None, 0)] and serve.get_replica_context().rank.rank == 0
        await scene.actor.reconfigure(DeploymentConfig(), 0, 5)
        assert len(shop.told) == 3 and serve.get_replica_context().world_size == 5

    play(story)


def test_a_replica_whose_class_hears_of_no_change_keeps_serving_when_their_number_changes() -> None:
    class Deaf:
        def __init__(self) -> None:
            self.gate, self.began = asyncio.Event(), asyncio.Event()

        async def wait(self) -> str:
            self.began.set()
            await self.gate.wait()
            return "waited"

    async def story() -> None:
        scene = Scene(Deaf, graceful_shutdown_timeout_s=3600.0)
        deaf = await scene.begin()
        running = asyncio.ensure_future(scene.actor.handle_request(call("wait")))
        await deaf.began.wait()
        await scene.actor.reconfigure(scene.config, 1, 5)  # though a request runs
        told = serve.get_replica_context()
        assert not running.done() and (told.rank.rank, told.world_size) == (1, 5)
        deaf.gate.set()
        assert await running == "waited"

    play(story)


def test_a_replica_that_drains_refuses_lets_requests_end_and_then_ends_the_object() -> None:
    class Ending(Shop):
        def __del__(self) -> None:
            self.told.append("ended")

    async def story() -> None:
        scene = Scene(Ending)
        shop = await scene.begin()
        running = asyncio.ensure_future(scene.actor.handle_request(call("wait")))
        await shop.began.wait()
        draining = asyncio.ensure_future(scene.actor.drain(0.0, 60.0))
        await asyncio.sleep(0)
        assert await scene.actor.handle_request(call("buy")) == Rejection(1, True)
        assert not draining.done() and "ended" not in shop.told
        shop.gate.set()
        await draining
        assert await running == "waited" and shop.told[-1] == "ended" and scene.log.flushed == 1

    play(story)


def test_a_request_that_takes_longer_than_allowed_does_not_hold_up_the_end() -> None:
    async def story() -> None:
        scene = Scene()
        shop = await scene.begin()
        running = asyncio.ensure_future(scene.actor.handle_request(call("wait")))
        await shop.began.wait()
        await scene.actor.drain(0.0, 0.0)
        assert not running.done()
        running.cancel()

    play(story)


# ---------------------------------------------------------------------- requests of handles
def test_a_request_runs_in_its_context() -> None:
    async def story() -> None:
        scene = Scene()
        await scene.begin()
        assert await scene.actor.handle_request(call("where")) == ("request", "/buy", "r1")
        assert scene.log.rows == [("OK", "CALL", "where")]

    play(story)


def test_a_full_replica_refuses_but_not_control_calls_and_has_room_again_after() -> None:
    async def story() -> None:
        scene = Scene(Shop, 1)
        shop = await scene.begin()
        running = asyncio.ensure_future(scene.actor.handle_request(call("wait")))
        await shop.began.wait()
        assert await scene.actor.handle_request(call("buy")) == Rejection(1, False)
        assert [each async for each in scene.actor.handle_request_streaming(call("count"), 2)] == [
            Rejection(1, False)
        ]
        assert await scene.http() == Rejection(1, False)
        assert await scene.actor.handle_control(call("buy"), 2) == 1
        shop.gate.set()
        await running
        assert await scene.actor.handle_request(call("buy"), count=1) == 0

    play(story)


def test_the_end_of_each_request_is_counted_as_it_was(registry: FakeRegistry) -> None:
    async def story() -> None:
        scene = Scene()
        shop = await scene.begin()
        with pytest.raises(ValueError, match="sold out"):
            await scene.actor.handle_request(call("buy"), 9)
        running = asyncio.ensure_future(scene.actor.handle_request(call("wait")))
        await shop.began.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert [row[0] for row in scene.log.rows] == ["ERROR", "CANCELLED"] and scene.actor._ongoing == 0
        assert list(registry.values("serve_deployment_error_counter").values()) == [1]

    play(story)


def test_a_stream_gives_its_items_and_its_place_back_however_it_ends() -> None:
    async def story() -> None:
        scene = Scene(Shop, 1)
        await scene.begin()
        assert [each async for each in scene.actor.handle_request_streaming(call("count"), 3)] == [0, 1, 2]
        with pytest.raises(ValueError, match="too many"):
            async for _ in scene.actor.handle_request_streaming(call("count"), 6):
                pass
        items = cast(Any, scene.actor.handle_request_streaming(call("count"), 3))
        assert await items.__anext__() == 0 and scene.actor._ongoing == 1
        await items.aclose()
        assert [row[0] for row in scene.log.rows] == ["OK", "ERROR", "CANCELLED"]
        assert scene.actor._ongoing == 0

    play(story)


class FakeChildRouter:
    """A router of this process, with requests that wait for a replica."""

    def __init__(self) -> None:
        self.pending: list[Call] = []
        self.forgotten: list[Call] = []

    def forget(self, made: Call) -> None:
        self.forgotten.append(made)


class FakeClient:
    def __init__(self, router: FakeChildRouter) -> None:
        self.routers = {"other": router}


def test_a_cancelled_request_cancels_its_own_that_still_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    router = FakeChildRouter()
    monkeypatch.setattr("sundog.serve.client._client", FakeClient(router))
    mine, other = (Call(cast(Any, router), RequestMetadata(name, name), (), {}) for name in "ab")
    mine.parent, other.parent = "inner", "another"
    router.pending = [mine, other]

    async def story() -> None:
        scene = Scene()
        shop = await scene.begin()
        running = asyncio.ensure_future(scene.actor.handle_request(call("wait")))
        await shop.began.wait()
        running.cancel()
        await asyncio.wait([running])

    play(story)
    assert router.forgotten == [mine] and not other.is_cancelled


# ---------------------------------------------------------------------- HTTP
def test_what_a_handler_returns_is_the_answer() -> None:
    async def story() -> None:
        scene = Scene()
        await scene.begin()
        answer = await scene.http()
        assert (answer.status, bytes(answer.body)) == (200, b'{"body":"tea"}')
        assert scene.log.rows == [("200", "GET", "/buy")]

    play(story)


def test_a_packed_request_has_a_packed_answer() -> None:
    async def story() -> None:
        scene = Scene()
        await scene.begin()
        values = ("POST", "http", "/buy", b"/buy", b"", "", ("127.0.0.1", 1), ("127.0.0.1", 2))
        request = pack_request("request", "inner", "/buy", "shop", cast(Any, values), [], b"tea")
        answer = await scene.actor.handle_http(*cast(Any, request))
        assert type(answer) is bytes
        status, _, body, closes = unpack_answer(answer)
        assert (status, bytes(body), closes) == (200, b'{"body":"tea"}', False)

    play(story)


class FakeBodies:
    def __init__(self, found: object) -> None:
        self.found = found

    def read(self, _place: BodyPlace) -> object:
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


@pytest.mark.parametrize(
    ("found", "answer"),
    [
        (b"tea", b"tea"),
        (None, Rejection(0, False)),
        (OSError("no memory"), Rejection(0, False, is_body_unreadable=True)),
    ],
)
def test_a_body_in_the_memory_of_a_proxy_is_read_or_asked_for_again(found: object, answer: object) -> None:
    async def story() -> None:
        scene = Scene()
        await scene.begin()
        scene.actor._bodies = cast(Any, FakeBodies(found))
        assert scene.actor._shared_body(cast(Any, "place")) == answer

    play(story)


def test_a_response_object_is_the_answer_as_it_is_and_a_streaming_one_comes_in_pieces() -> None:
    from starlette.responses import Response, StreamingResponse

    class Answering(Shop):
        async def answer(self, body: bytes) -> Any:
            if not self.stock:
                return Response(b"none", 404, {"x-kind": "tea"})

            async def pieces() -> AsyncIterator[bytes]:
                yield b"one"
                await self.gate.wait()
                yield b"two"

            return StreamingResponse(pieces())

    async def story() -> None:
        scene = Scene(Answering)
        shop = await scene.begin()
        beginning = await scene.http()
        assert isinstance(beginning, StreamedAnswer) and not beginning.is_done and scene.actor._ongoing == 1
        rest = cast(Any, scene.actor.http_stream("inner"))
        shop.gate.set()
        pieces = [piece async for messages in rest for piece in messages]
        assert b"two" in [bytes(each["body"]) for each in pieces if each.get("body")]
        assert scene.actor._exchanges == {}
        while scene.actor._ongoing:
            await asyncio.sleep(0)
        shop.stock = 0
        answer = await scene.http()
        assert answer.status == 404 and (b"x-kind", b"tea") in answer.headers
        assert [row[0] for row in scene.log.rows] == ["200", "404"]

    play(story)


def test_a_reader_that_stops_reading_a_stream_stops_the_app() -> None:
    from starlette.responses import StreamingResponse

    class Endless(Shop):
        async def answer(self, body: bytes) -> Any:
            async def pieces() -> AsyncIterator[bytes]:
                yield b"one"
                self.began.set()
                await self.gate.wait()
                yield b"two"

            return StreamingResponse(pieces())

    async def story() -> None:
        scene = Scene(Endless)
        shop = await scene.begin()
        await scene.http()
        await shop.began.wait()
        rest = asyncio.ensure_future(cast(Any, scene.actor.http_stream("inner")).__anext__())
        await asyncio.sleep(0)
        rest.cancel()
        while scene.actor._ongoing:
            await asyncio.sleep(0)
        assert scene.log.rows[0][0] == "499"
        assert not await scene.actor.http_input("inner", [])  # nothing listens any more

    play(story)


@pytest.mark.parametrize(
    ("error", "status"), [(BackPressureError(5, 5), "503"), (ValueError("sold out"), "500")]
)
def test_an_error_of_serve_is_an_answer_and_one_of_the_user_is_raised(error: Exception, status: str) -> None:
    class Raising(Shop):
        async def answer(self, body: bytes) -> Any:
            raise error

    async def story() -> None:
        scene = Scene(Raising)
        await scene.begin()
        if status == "500":
            with pytest.raises(ValueError, match="sold out"):
                await scene.http()
        else:
            answer = await scene.http()
            assert isinstance(answer, WholeAnswer) and answer.status == 503
        assert scene.log.rows == [(status, "GET", "/buy")] and scene.actor._ongoing == 0

    play(story)


def test_a_handler_that_returns_a_generator_learns_what_to_return_instead() -> None:
    class Generating(Shop):
        async def answer(self, body: bytes) -> Any:
            return (each for each in "tea")

    async def story() -> None:
        scene = Scene(Generating)
        await scene.begin()
        with pytest.raises(TypeError, match=r"return a starlette\.responses\.StreamingResponse of it"):
            await scene.http()

    play(story)


def test_a_body_that_is_still_coming_is_given_to_the_handler_as_it_comes() -> None:
    async def story() -> None:
        scene = Scene()
        await scene.begin()
        scope: Any = {"type": "http", "method": "POST", "path": "/buy", "headers": [], "query_string": b""}
        asked = asyncio.ensure_future(scene.actor.handle_http(META, scope, b"green ", True))
        while "inner" not in scene.actor._exchanges:
            await asyncio.sleep(0)
        assert await scene.actor.http_input(
            "inner", [{"type": "http.request", "body": b"tea", "more_body": False}]
        )
        answer = await asked
        assert isinstance(answer, WholeAnswer) and bytes(answer.body) == b'{"body":"green tea"}'

    play(story)


def test_a_deployment_without_an_app_takes_no_websockets() -> None:
    async def story() -> None:
        scene = Scene()
        await scene.begin()
        with pytest.raises(RayServeException, match=r"no ASGI app, so it takes no WebSockets: use @serve\.i"):
            await scene.http(type="websocket")
        await asyncio.sleep(0)
        assert scene.actor._ongoing == 0 and scene.actor._exchanges == {}

    play(story)
