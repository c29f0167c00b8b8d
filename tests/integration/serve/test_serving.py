"""Serve as its users meet it: handles, HTTP, composition, batches, models, updates."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sundog import serve
from sundog.serve import client
from sundog.serve.exceptions import BackPressureError, RayServeException, RequestCancelledError
from sundog.serve.rows import ReplicaState
from tests.integration.serve.services import eventually, get, start


def test_handles_compose_stream_cancel_and_tell_errors(ray: ModuleType) -> None:
    start()

    @serve.deployment(ray_actor_options={"num_cpus": 0})
    class Adder:
        def __init__(self, amount: int) -> None:
            self.amount = amount

        def add(self, value: int) -> int:
            return value + self.amount

        async def count(self, to: int) -> Any:
            for each in range(to):
                yield each

        async def hang(self) -> None:
            await asyncio.sleep(600)

        def fail(self) -> None:
            raise ValueError("no")

        def die(self) -> None:
            os._exit(3)

    @serve.deployment(ray_actor_options={"num_cpus": 0})
    class Chain:
        def __init__(self, one: Any, two: Any) -> None:
            self.one, self.two = one, two

        async def __call__(self, value: int) -> int:
            return int(await self.two.add.remote(self.one.add.remote(value)))  # a response as an argument

        async def lose(self) -> int:
            return int(await self.two.add.remote(self.one.die.remote()))

    handle = serve.run(Chain.bind(Adder.bind(1), Adder.bind(10)))
    assert handle.remote(5).result() == 16
    with pytest.raises(RayServeException, match=r"Adder_1'.* was not sent.*'Adder'"):
        handle.lose.remote().result()
    handle.shutdown()
    eventually(lambda: handle.remote(5).result() == 16)
    adder = serve.get_deployment_handle("Adder_1", "default")
    assert list(adder.count.options(stream=True).remote(3)) == [0, 1, 2]
    with pytest.raises(ValueError, match="no"):
        adder.fail.remote().result()
    with pytest.raises(RayServeException, match="'nothing'"):
        adder.nothing.remote().result()
    hanging = adder.hang.remote()
    with pytest.raises(ray.exceptions.GetTimeoutError):  # a TimeoutError
        hanging.result(timeout_s=0.1)
    hanging.cancel()
    with pytest.raises(RequestCancelledError):
        hanging.result()
    assert adder.broadcast("add", 1).results(timeout_s=120) == [11]
    with pytest.raises(RayServeException, match="does not exist"):
        serve.get_app_handle("other")
    with pytest.raises(KeyError, match="does not exist"):
        serve.get_deployment_handle("Other", "default")
    serve.delete("default")
    assert serve.status().applications == {}


def test_http_takes_bodies_streams_and_tells_of_bad_requests(ray: ModuleType) -> None:
    from starlette.requests import Request
    from starlette.responses import StreamingResponse

    port = start(request_timeout_s=2)

    @serve.deployment(ray_actor_options={"num_cpus": 0}, max_ongoing_requests=2, max_queued_requests=1)
    class Web:
        async def __call__(self, request: Request) -> Any:
            path = request.url.path
            if path.endswith("/size"):
                return len(await request.body())
            if path.endswith("/stream"):
                return StreamingResponse((f"{each}\n" for each in range(3)), media_type="text/plain")
            if path.endswith("/fail"):
                raise ValueError("no")
            if path.endswith("/hang"):
                await asyncio.sleep(600)
            return {"path": path}

    serve.run(Web.bind(), route_prefix="/web")
    assert get("/web/x", port)[:2] == (200, '{"path":"/web/x"}')
    assert get("/web/size", port, "POST", b"x" * 9_000_000)[:2] == (200, "9000000")
    assert get("/web/stream", port)[:2] == (200, "0\n1\n2\n")
    assert get("/web/fail", port)[0] == 500
    status, text, headers = get("/web/hang", port, x_request_id="mine", x_request_timeout_seconds="0.2")
    assert (status, headers["x-request-id"]) == (408, "mine")
    assert "timed out" in text
    status, _, headers = get("/other", port, x_request_id="lost")
    assert (status, headers["x-request-id"]) == (404, "lost")
    assert get("/-/routes", port)[1] == '{"/web":"default"}'
    assert get("/-/healthz", port)[1] == "success"

    statuses: list[int] = []
    hanging = [threading.Thread(target=lambda: statuses.append(get("/web/hang", port)[0])) for _ in range(8)]
    for each in hanging:
        each.start()
    for each in hanging:
        each.join()
    assert set(statuses) == {408, 503}  # two run, one waits, and there is no room for more
    eventually(lambda: get("/web/x", port)[0] == 200)


def test_batches_models_and_user_configs(ray: ModuleType) -> None:
    start()

    @serve.deployment(ray_actor_options={"num_cpus": 0}, max_ongoing_requests=20, user_config={"word": "one"})
    class Model:
        def reconfigure(self, config: dict[str, str]) -> None:
            self.word = config["word"]

        @serve.batch(max_batch_size=4, batch_wait_timeout_s=5)
        async def sizes(self, values: list[int]) -> list[int]:
            return [len(values)] * len(values)

        @serve.multiplexed(max_num_models_per_replica=2)
        async def load(self, model_id: str) -> str:
            return f"model {model_id} of {os.getpid()}"

        async def use(self) -> str:
            return str(await self.load(serve.get_multiplexed_model_id()))

        def say(self) -> str:
            return self.word

    handle = serve.run(Model.bind())
    assert [each.result() for each in [handle.sizes.remote(i) for i in range(4)]] == [4] * 4
    answers = {handle.options(multiplexed_model_id="m1").use.remote().result() for _ in range(3)}
    assert len(answers) == 1
    assert handle.say.remote().result() == "one"
    assert serve.run(Model.options(user_config={"word": "two"}).bind()).say.remote().result() == "two"


def test_an_update_under_load_and_kills_fails_no_request_that_was_not_in_a_killed_replica(
    ray: ModuleType,
) -> None:
    from sundog.exceptions import RayActorError

    start()

    @serve.deployment(
        num_replicas=2,
        max_ongoing_requests=50,
        ray_actor_options={"num_cpus": 0},
        # Longer than handles take to hear that a replica leaves.
        graceful_shutdown_wait_loop_s=0.5,
        health_check_period_s=0.2,
    )
    class Version:
        def __init__(self, number: int) -> None:
            self.number = number

        async def __call__(self) -> tuple[int, int]:
            await asyncio.sleep(0.001)
            return self.number, os.getpid()

    handle = serve.run(Version.bind(1))
    seen: list[int] = []
    failed: list[BaseException] = []
    is_over = threading.Event()

    def load() -> None:
        while not is_over.is_set():
            try:
                seen.append(handle.remote().result(timeout_s=120)[0])
            except BaseException as error:
                failed.append(error)

    threads = [threading.Thread(target=load) for _ in range(4)]
    for each in threads:
        each.start()
    try:
        for number in (2, 3, 4):
            serve.run(Version.bind(number))
        assert failed == []
        os.kill(ray.get(client.connect().controller.check_alive.remote()), signal.SIGKILL)
        before = len(seen)
        eventually(lambda: len(seen) > before + 100)  # requests go on while the controller is away
        serve.run(Version.bind(5))
        assert failed == []
        os.kill(handle.remote().result()[1], signal.SIGKILL)
        eventually(lambda: serve.status().applications["default"].status == "RUNNING" and _running() == 2)
    finally:
        is_over.set()
        for each in threads:
            each.join()
    assert seen[-1] == 5
    assert all(isinstance(error, RayActorError) for error in failed)
    assert len(failed) <= 4  # each thread had at most one request in the replica that was killed


def _running() -> int:
    row = serve.status().applications["default"].deployments["Version"]
    return row.replica_states.get(ReplicaState.RUNNING, 0)


def test_a_version_that_cannot_start_leaves_the_old_one_running(ray: ModuleType) -> None:
    start()

    @serve.deployment(ray_actor_options={"num_cpus": 0}, graceful_shutdown_wait_loop_s=0)
    class Fragile:
        def __init__(self, is_broken: bool) -> None:
            if is_broken:
                raise RuntimeError("cannot start")

        def __call__(self) -> str:
            return "works"

    handle = serve.run(Fragile.bind(False))
    with pytest.raises(RuntimeError, match="cannot start"):
        serve.run(Fragile.bind(True))
    assert serve.status().applications["default"].status == "DEPLOY_FAILED"
    assert handle.remote().result() == "works"


def test_replicas_follow_the_load_to_zero_and_back(ray: ModuleType, tmp_path: Path) -> None:
    start()
    scaling = {
        "min_replicas": 0,
        "max_replicas": 2,
        "target_ongoing_requests": 1,
        "upscale_delay_s": 0.1,
        "downscale_delay_s": 0.2,
        "look_back_period_s": 0.5,
        "metrics_interval_s": 0.1,
    }

    @serve.deployment(
        autoscaling_config=scaling, ray_actor_options={"num_cpus": 0}, graceful_shutdown_wait_loop_s=0
    )
    class Elastic:
        async def __call__(self, gate: Path) -> str:
            while not gate.exists():  # a load that lasts until the second replica was seen
                await asyncio.sleep(0.02)
            return "done"

    def running() -> int:
        row = serve.status().applications["default"].deployments["Elastic"]
        return row.replica_states.get(ReplicaState.RUNNING, 0)

    handle = serve.run(Elastic.bind())
    assert running() == 0
    assert handle.remote(tmp_path).result(timeout_s=120) == "done"
    gate = tmp_path / "gate"
    many = [handle.remote(gate) for _ in range(6)]
    eventually(lambda: running() == 2)
    gate.touch()
    assert {each.result(timeout_s=120) for each in many} == {"done"}
    eventually(lambda: running() == 0)


def test_a_port_in_use_and_a_full_queue_are_told(ray: ModuleType) -> None:
    import socket

    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    try:
        with pytest.raises(RuntimeError, match="cannot listen"):
            serve.start(http_options={"port": taken.getsockname()[1]})
    finally:
        taken.close()
    serve.start(proxy_location="Disabled")

    @serve.deployment(max_ongoing_requests=1, max_queued_requests=1, ray_actor_options={"num_cpus": 0})
    async def slow() -> None:
        await asyncio.sleep(600)

    handle = serve.run(slow.options(graceful_shutdown_timeout_s=0).bind())
    waiting = [handle.remote(), handle.remote()]
    with pytest.raises(BackPressureError):
        handle.remote().result()
    began = time.monotonic()
    serve.shutdown()
    assert time.monotonic() - began < 300  # it does not wait for the requests, which take twice as long
    assert waiting


def test_processes_of_serve_are_forked_with_serve_loaded(ray: ModuleType) -> None:
    @ray.remote
    def has_proxy() -> bool:
        import sys

        return "sundog.serve.proxy" in sys.modules

    assert ray.get(has_proxy.remote()), "this program had imported Serve when its session began"


def test_a_call_right_before_a_deletion_ends_with_the_replica_or_is_told_of_it(ray: ModuleType) -> None:
    start()

    @serve.deployment(graceful_shutdown_timeout_s=0.1, ray_actor_options={"num_cpus": 0})
    def sleeper() -> None:
        threading.Event().wait()

    response = serve.run(sleeper.bind(), name="sleeper", route_prefix=None).remote()
    serve.delete("sleeper")
    # The call and the deletion go different ways: the replica may hear of its end first, and refuse the call.
    with pytest.raises((ray.exceptions.RayActorError, RayServeException), match=r"dead|does not exist"):
        response.result(timeout_s=120)


def test_a_deleted_deployment_that_has_no_requests_ends_without_waiting(ray: ModuleType) -> None:
    start()

    @serve.deployment(graceful_shutdown_wait_loop_s=3600, graceful_shutdown_timeout_s=3600)
    class Idle:
        def __call__(self) -> str:
            return "here"

    assert serve.run(Idle.bind(), name="idle", route_prefix=None).remote().result() == "here"
    serve.delete("idle")  # an hour, if it waited
    assert not serve.status().applications
