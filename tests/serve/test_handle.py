"""Handles, their options, and the responses that their calls return."""

from __future__ import annotations

import asyncio
import copy
import pickle
import threading
from concurrent.futures import Future
from typing import Any, cast

import pytest

import sundog
from sundog import serve
from sundog.exceptions import ActorDiedError, GetTimeoutError, RayTaskError, TaskCancelledError
from sundog.serve.calls import Call
from sundog.serve.context import RequestContext, request_context
from sundog.serve.exceptions import BackPressureError, ReplicaUnavailableError, RequestCancelledError
from sundog.serve.handle import DeploymentHandle, DeploymentResponse, DeploymentResponseGenerator
from sundog.serve.replica_view import Replica
from sundog.serve.rows import DeploymentHandleSource, Rejection, RequestMetadata
from tests.serve.fakes import MODEL, FakeActor, FakeRegistry, enter_replica, running


class FakeRouter:
    """Takes calls, and sends each refused one again at once."""

    def __init__(self, client: FakeClient) -> None:
        self.client, self.deployment = client, MODEL
        self.replicas = [Replica(running("r1", node_id="n1", replica_metadata={"kind": "tea"}))]
        self.calls: list[Call] = []
        self.released: list[Replica] = []
        self.sent: list[tuple[Call, Replica]] = []
        self.next_stages: list[Future[object]] = []

    def assign(self, meta: RequestMetadata, args: tuple[object, ...], kwargs: dict[str, object]) -> Call:
        call = Call(cast(Any, self), meta, args, kwargs)
        call.wait()
        self.calls.append(call)
        return call

    def retry(self, call: Call, stage: Future[object]) -> None:
        if call.current is stage:
            call.current = self.next_stages.pop(0)

    def forget(self, call: Call) -> None:
        pass

    async def reserve(self, meta: RequestMetadata) -> Replica:
        return self.replicas[0]

    def release(self, replica: Replica) -> None:
        self.released.append(replica)

    def send(self, call: Call, replica: Replica) -> None:
        self.sent.append((call, replica))
        call.wait()

    def running(self) -> list[Replica]:
        return self.replicas


class FakeClient:
    """The connection of a process to Serve."""

    def __init__(self) -> None:
        self.is_closed, self.made = False, 0

    def is_over(self) -> bool:
        return self.is_closed

    def router(self, deployment: object) -> FakeRouter:
        assert deployment == MODEL
        self.made += 1
        return FakeRouter(self)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    FakeRegistry(monkeypatch)
    found = FakeClient()
    monkeypatch.setattr("sundog.serve.client.connect", lambda: found)
    return found


@pytest.fixture
def handle(client: FakeClient) -> DeploymentHandle[Any]:
    return DeploymentHandle("Model", "shop")


def router_of(handle: DeploymentHandle[Any]) -> FakeRouter:
    return cast(FakeRouter, handle._live_router())


def answered(value: object) -> Future[object]:
    stage: Future[object] = Future()
    if isinstance(value, BaseException):
        stage.set_exception(value)
    else:
        stage.set_result(value)
    return stage


def response(*values: object) -> DeploymentResponse[Any]:
    """The response of a call whose stages end so, one after the other."""
    router = FakeRouter(FakeClient())
    call = Call(cast(Any, router), RequestMetadata("id-1", "inner"), (), {})
    call.current, *router.next_stages = [answered(value) for value in values] or [Future()]
    return DeploymentResponse(call)


def unbegun() -> ActorDiedError:
    error = ActorDiedError("the replica died")
    error.may_have_run = False
    return error


# ---------------------------------------------------------------------- handles
def test_a_call_goes_to_the_router_with_all_that_was_chosen(handle: DeploymentHandle[Any]) -> None:
    chosen = handle.options(method_name="buy", multiplexed_model_id="m", session_id="s")
    made = chosen.remote(1, size=2)
    (call,) = router_of(handle).calls
    assert isinstance(made, DeploymentResponse) and made.request_id == call.meta.request_id != ""
    assert (call.args, call.kwargs) == ((1,), {"size": 2})
    meta = call.meta
    assert (meta.call_method, meta.multiplexed_model_id, meta.session_id) == ("buy", "m", "s")
    assert meta.app_name == "shop" and not meta.is_streaming


def test_a_call_within_a_request_has_its_id_and_route(handle: DeploymentHandle[Any]) -> None:
    before = request_context.set(RequestContext(route="/buy", request_id="outer"))
    try:
        made = handle.remote()
    finally:
        request_context.reset(before)
    meta = router_of(handle).calls[0].meta
    assert made.request_id == meta.request_id == "outer" and meta.route == "/buy"


def test_every_call_is_counted_by_handle_and_route(
    handle: DeploymentHandle[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = FakeRegistry(monkeypatch)
    handle.remote()
    handle.options(stream=True).remote()
    where = (f"shop#Model#{handle.handle_id}", "Model", "", "shop")
    assert registry.values("serve_handle_request_counter") == {where: 2}


def test_options_change_what_is_given_and_leave_the_handle_as_it_was(handle: DeploymentHandle[Any]) -> None:
    one = handle.options(stream=True)
    two = one.options(method_name="buy", multiplexed_model_id="")
    assert two.handle_options.stream and two.handle_options.method_name == "buy"
    assert not handle.handle_options.stream and handle.handle_options.method_name == "__call__"
    assert two.handle_id == handle.handle_id and two._router is handle._router
    with pytest.raises(TypeError, match="unexpected keyword argument 'method'"):
        cast(Any, handle).options(method="buy")


def test_an_attribute_is_a_handle_of_that_method_and_found_at_once_the_next_time(
    handle: DeploymentHandle[Any],
) -> None:
    assert handle.buy.handle_options.method_name == "buy"
    assert handle.buy is handle.buy and handle._hidden is not handle._hidden
    with pytest.raises(AttributeError, match="__array__"):
        handle.__array__  # noqa: B018  # libraries look for it


def test_a_handle_that_travels_keeps_its_names_and_options_and_connects_anew(
    handle: DeploymentHandle[Any],
) -> None:
    chosen = handle.options(method_name="buy", stream=True)
    for made in (pickle.loads(pickle.dumps(chosen)), copy.copy(chosen)):
        assert repr(made) == "DeploymentHandle(deployment='Model', app='shop')"
        assert made.handle_options == chosen.handle_options
        assert made._router is None and not made.is_initialized


def test_a_handle_is_set_up_once_and_before_it_is_used(
    handle: DeploymentHandle[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    enter_replica(monkeypatch)
    assert not handle.is_initialized
    handle._init(_prefer_local_routing=True)
    assert handle.init_options is not None and handle.init_options._prefer_local_routing
    assert handle.init_options._source is DeploymentHandleSource.REPLICA
    used: DeploymentHandle[Any] = DeploymentHandle("Model", "shop")
    used.options()
    for each in (handle, used):
        with pytest.raises(RuntimeError, match=r"name='Model', app='shop'\) is in use.*comes too late"):
            each._init()


def test_a_handle_connects_again_when_serve_was_restarted_or_it_was_shut_down(
    handle: DeploymentHandle[Any], client: FakeClient
) -> None:
    handle.remote()
    handle.remote()
    assert client.made == 1 and handle.running_replicas_populated()
    client.is_closed = True
    handle.remote()
    assert client.made == 2
    client.is_closed = False
    asyncio.run(handle.shutdown_async())
    handle.remote()
    assert client.made == 3


def test_a_broadcast_calls_the_named_method_on_every_replica(handle: DeploymentHandle[Any]) -> None:
    router = router_of(handle)
    router.replicas = [Replica(running(name, FakeActor(handle_control=name))) for name in "ab"]
    assert handle.options(stream=True).broadcast("clear", 1).results(timeout_s=0) == ["a", "b"]
    ((meta, given), _kwargs) = router.replicas[0].actor.handle_control.calls[0]
    assert meta.call_method == "clear" and not meta.is_streaming and given == 1


# ---------------------------------------------------------------------- a chosen replica
def test_a_chosen_replica_keeps_its_place_until_the_block_ends(handle: DeploymentHandle[Any]) -> None:
    router = router_of(handle)

    async def scene() -> None:
        async with handle.choose_replica() as found:
            assert router.released == [] and found.address == "127.0.0.1"
            assert found.to_dict() == {
                "replica_id": "r1",
                "node_ip": "127.0.0.1",
                "port": None,
                "node_id": "n1",
                "availability_zone": None,
                "replica_metadata": {"kind": "tea"},
            }
            found.port = 8000
            assert found.address == "127.0.0.1:8000"
        assert router.released == router.replicas

    asyncio.run(scene())


def test_a_request_is_dispatched_to_its_chosen_replica_once(handle: DeploymentHandle[Any]) -> None:
    router = router_of(handle)
    other: DeploymentHandle[Any] = DeploymentHandle("Other", "shop")

    async def scene() -> None:
        async with handle.choose_replica() as found:
            with pytest.raises(ValueError, match=r"made for Deployment\(name='Model'.*not for .*'Other'"):
                other.dispatch(found)
            made = handle.dispatch(found, 1, size=2)
            assert isinstance(made, DeploymentResponse)
            with pytest.raises(RuntimeError, match="replica r1 has already been dispatched"):
                handle.dispatch(found)
        ((call, replica),) = router.sent
        assert (call.args, call.kwargs, replica) == ((1,), {"size": 2}, router.replicas[0])
        assert router.released == []  # the request has the place now

    asyncio.run(scene())


def test_a_chosen_replica_that_is_gone_fails_the_request_and_gives_the_place_back(
    handle: DeploymentHandle[Any],
) -> None:
    router = router_of(handle)

    async def scene() -> None:
        async with handle.choose_replica() as found:
            router.replicas[0].is_gone = True
            with pytest.raises(ReplicaUnavailableError, match="r1"):
                await handle.dispatch(found)
        assert router.released == router.replicas and router.sent == []

    asyncio.run(scene())


# ---------------------------------------------------------------------- one answer
@pytest.mark.parametrize("in_loop", [False, True])
def test_a_response_follows_its_request_to_the_replica_that_takes_it(in_loop: bool) -> None:
    made = response(Rejection(5, False), unbegun(), "tea")
    assert read(made, in_loop) == "tea"


@pytest.mark.parametrize("in_loop", [False, True])
@pytest.mark.parametrize("inner", [TimeoutError("the shop is slow"), GetTimeoutError("a get was slow")])
def test_a_time_limit_of_the_users_own_code_is_told_as_such(inner: Exception, in_loop: bool) -> None:
    with pytest.raises(type(inner), match=str(inner)):
        read(response(inner), in_loop)


@pytest.mark.parametrize("in_loop", [False, True])
def test_errors_of_serve_come_as_themselves_and_those_of_the_user_as_they_were_raised(in_loop: bool) -> None:
    full = BackPressureError(1, 1)
    with pytest.raises(BackPressureError) as told:
        read(response(RayTaskError("buy", "", full)), in_loop)
    assert told.value is full
    error = RayTaskError("buy", "", KeyError("tea"))
    with pytest.raises(RayTaskError) as found:
        read(response(error), in_loop)
    assert found.value is error


@pytest.mark.parametrize("in_loop", [False, True])
def test_a_request_that_may_have_run_is_not_sent_again_when_its_replica_dies(in_loop: bool) -> None:
    with pytest.raises(ActorDiedError, match="the replica died"):
        read(response(ActorDiedError("the replica died"), "never"), in_loop)


@pytest.mark.parametrize("in_loop", [False, True])
def test_a_cancelled_request_ends_with_an_error_that_names_it(in_loop: bool) -> None:
    made = response()
    assert not made.cancelled()
    made.cancel()
    assert made.cancelled()
    with pytest.raises(RequestCancelledError, match="id-1"):
        read(made, in_loop)
    with pytest.raises(RequestCancelledError, match="id-1"):
        read(response(TaskCancelledError("cancelled in the replica")), in_loop)


def read(made: DeploymentResponse[Any], in_loop: bool) -> object:
    async def ask() -> object:
        return await made

    return asyncio.run(ask()) if in_loop else made.result(timeout_s=60)


def test_an_answer_that_does_not_come_in_time_is_a_timeout_with_its_seconds() -> None:
    made = response()
    with pytest.raises(GetTimeoutError, match="Timed out waiting for the response") as told:
        made.result(timeout_s=0)
    assert isinstance(told.value, TimeoutError) and told.value.timeout_s == 0


def test_result_refuses_to_block_an_event_loop() -> None:
    async def scene() -> None:
        made = response("tea")
        with pytest.raises(RuntimeError, match=r"would block the event loop.*`await response`"):
            made.result()
        assert made.result(_skip_asyncio_check=True) == "tea"

    asyncio.run(scene())


def test_a_cancelled_reader_does_not_cancel_the_request() -> None:
    async def scene() -> None:
        made = response()
        reader = asyncio.ensure_future(made._answer())
        await asyncio.sleep(0)
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        assert not made.cancelled() and not made._call.is_cancelled

    asyncio.run(scene())


def test_a_response_inside_another_object_cannot_be_sent() -> None:
    with pytest.raises(serve.exceptions.RayServeException, match="as an argument of its own, not inside"):
        pickle.dumps([response("tea")])


def test_the_ref_of_an_answer_is_that_of_the_replica_that_took_the_request() -> None:
    made = response(Rejection(1, False), "tea")
    made._call.ref = cast(Any, "ref")
    assert made._to_object_ref_sync() == "ref" == asyncio.run(cast(Any, made._to_object_ref()))


# ---------------------------------------------------------------------- streams
class FakeGenerator:
    """The items of a stream, each as its own ref."""

    def __init__(self, *items: object) -> None:
        self.items = [answered(item) for item in items]

    def __next__(self) -> Future[object]:
        if not self.items:
            raise StopIteration
        return self.items.pop(0)

    async def __anext__(self) -> asyncio.Future[object]:
        if not self.items:
            raise StopAsyncIteration
        return asyncio.wrap_future(self.items.pop(0))


class StreamRouter(FakeRouter):
    """Sends a refused stream to the next generator."""

    def __init__(self, *generators: FakeGenerator) -> None:
        super().__init__(FakeClient())
        self.generators = list(generators)

    def retry(self, call: Call, stage: Future[object]) -> None:
        call.generator = cast(Any, self.generators.pop(0))


def stream(*generators: FakeGenerator) -> DeploymentResponseGenerator[Any]:
    router = StreamRouter(*generators)
    call = Call(cast(Any, router), RequestMetadata("id-1", "inner", is_streaming=True), (), {})
    router.retry(call, call.wait())
    return DeploymentResponseGenerator(call)


def items_of(made: DeploymentResponseGenerator[Any], in_loop: bool) -> list[object]:
    async def gather() -> list[object]:
        return [each async for each in made]

    return asyncio.run(gather()) if in_loop else list(made)


@pytest.fixture
def refs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sundog, "get", lambda ref: ref.result(0))


@pytest.mark.usefixtures("refs")
@pytest.mark.parametrize("in_loop", [False, True])
def test_a_stream_follows_its_request_until_its_first_item(in_loop: bool) -> None:
    made = stream(FakeGenerator(Rejection(1, False)), FakeGenerator(unbegun()), FakeGenerator("a", "b"))
    assert items_of(made, in_loop) == ["a", "b"]


@pytest.mark.usefixtures("refs")
@pytest.mark.parametrize("in_loop", [False, True])
def test_a_stream_that_has_begun_does_not_begin_anew(in_loop: bool) -> None:
    made = stream(FakeGenerator("a", unbegun()), FakeGenerator("a", "b"))
    with pytest.raises(ActorDiedError):
        items_of(made, in_loop)
    refusal = Rejection(1, False)  # an item of the user's, from the second on
    assert items_of(stream(FakeGenerator("a", refusal)), in_loop) == ["a", refusal]


@pytest.mark.usefixtures("refs")
@pytest.mark.parametrize("in_loop", [False, True])
def test_a_stream_that_waits_for_a_replica_is_waited_for(in_loop: bool) -> None:
    made = stream(FakeGenerator("a"))
    call, made._call.generator = made._call, None
    stage = call.current
    assert stage is not None

    def send() -> None:
        call.sent(cast(Any, "replica"), None, cast(Any, FakeGenerator("a")), answered(None))

    sender = threading.Thread(target=send)
    sender.start()
    assert items_of(made, in_loop) == ["a"]
    sender.join()
    assert made._to_object_ref_gen_sync() is call.generator


@pytest.mark.usefixtures("refs")
@pytest.mark.parametrize("in_loop", [False, True])
def test_a_cancelled_stream_says_so(in_loop: bool) -> None:
    made = stream(FakeGenerator(TaskCancelledError("cancelled")))
    with pytest.raises(RequestCancelledError, match="id-1"):
        items_of(made, in_loop)


def test_a_stream_has_no_single_result_and_does_not_block_a_loop() -> None:
    made = stream(FakeGenerator("a"))
    with pytest.raises(TypeError, match=r"no `\.result\(\)`\. Iterate: with `async for`"):
        made.result(timeout_s=1)

    async def scene() -> None:
        with pytest.raises(TypeError, match="`await` does not take it"):
            await made
        with pytest.raises(RuntimeError, match=r"would block the event loop.*`async for`"):
            next(made)

    asyncio.run(scene())
