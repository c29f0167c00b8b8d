"""Updates seen by HTTP clients: a canary, a version that is too slow, one that fails, and going back by hand."""

from __future__ import annotations

import http.client
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from sundog import serve
from sundog.serve import operations
from tests.integration.serve.services import eventually, get, start


@contextmanager
def load(port: int, clients: int = 4) -> Iterator[Counter[tuple[int, str]]]:
    """Clients that ask without a pause; what they were answered."""
    seen: Counter[tuple[int, str]] = Counter()
    is_over = threading.Event()

    def client() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        while not is_over.is_set():
            connection.request("GET", "/")
            answer = connection.getresponse()
            seen[answer.status, answer.read().decode()] += 1
        connection.close()

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for each in threads:
        each.start()
    try:
        yield seen
    finally:
        is_over.set()
        for each in threads:
            each.join()


def version(number: int, *, seconds: float = 0.0, fails: bool = False, **rules: Any) -> Any:
    @serve.deployment(
        name="Model",
        num_replicas=2,
        max_ongoing_requests=50,
        ray_actor_options={"num_cpus": 0},
        graceful_shutdown_wait_loop_s=0.1,
        rolling_update_config=rules or None,
    )
    class Model:
        async def __call__(self) -> str:
            import asyncio

            if fails:
                raise ValueError("this version is broken")
            await asyncio.sleep(seconds)
            return f"v{number}"

    return Model.bind()


def deploy(app: Any) -> None:
    """Begin an update, and do not wait for its end."""
    serve.run_many([serve.RunTarget(app, name="default")], wait_for_applications_running=False)


def message() -> str:
    return serve.status().applications["default"].deployments["Model"].message


def test_a_canary_gets_its_share_until_it_is_promoted(ray: ModuleType) -> None:
    port = start()
    serve.run(version(1))
    serve.run(version(2, canary="20%"))
    eventually(lambda: get("/", port)[1] == "v2")
    seen = Counter(get("/", port)[1] for _ in range(500))
    assert set(seen) == {"v1", "v2"}
    assert 40 <= seen["v2"] <= 180  # 100 are to be expected; a chance of one in 10^10
    with load(port) as answers:
        operations.promote("default")
        eventually(lambda: Counter(get("/", port)[1] for _ in range(50)) == {"v2": 50})
    assert {status for status, _ in answers} == {200}


def test_a_version_that_is_too_slow_is_rolled_back_without_a_failed_request(ray: ModuleType) -> None:
    port = start()
    serve.run(version(1))
    with load(port) as answers:
        eventually(lambda: answers[200, "v1"] > 200)
        deploy(version(2, seconds=2.0, max_latency_ratio=3, min_requests=5))
        eventually(lambda: "times as long as before" in message())
        eventually(lambda: Counter(get("/", port)[1] for _ in range(50)) == {"v1": 50})
    assert answers[200, "v2"] > 0
    assert {status for status, _ in answers} == {200}


def test_a_version_whose_requests_fail_is_rolled_back_and_history_tells(ray: ModuleType) -> None:
    port = start()
    serve.run(version(1))
    with load(port, 2) as answers:
        eventually(lambda: answers[200, "v1"] > 50)
        deploy(version(2, fails=True, max_error_rate=0.5, min_requests=5))
        eventually(lambda: "requests failed" in message())
        eventually(lambda: Counter(get("/", port)[1] for _ in range(50)) == {"v1": 50})
    assert {status for status, _ in answers} == {200, 500}
    assert [row.number for row in operations.history("default")] == [1, 2]


def test_going_back_by_hand_fails_no_request(ray: ModuleType) -> None:
    port = start()
    serve.run(version(1))
    serve.run(version(2))
    with load(port) as answers:
        eventually(lambda: answers[200, "v2"] > 50)
        operations.roll_back("default")
        eventually(lambda: Counter(get("/", port)[1] for _ in range(50)) == {"v1": 50})
    assert {status for status, _ in answers} == {200}


class Told:
    """Answers with its config."""

    def reconfigure(self, config: dict[str, str]) -> None:
        self.config = config["said"]

    def __call__(self) -> str:
        return self.config


told = serve.deployment(ray_actor_options={"num_cpus": 0})(Told).bind()


def test_going_back_returns_to_the_options_of_before(ray: ModuleType) -> None:
    start()
    for config in ("one", "two", "two"):
        row = {"name": "Told", "user_config": {"said": config}}
        app = {"import_path": f"{__name__}:told", "route_prefix": None, "deployments": [row]}
        operations.apply({"applications": [app]}, wait=True)
    handle = serve.get_app_handle("default")
    assert handle.remote().result() == "two"
    assert operations.roll_back("default") == 1, "the last revision that differs"
    eventually(lambda: handle.remote().result() == "one")


def test_a_node_takes_no_more_replicas_than_the_deployment_allows(ray: ModuleType) -> None:
    @serve.deployment(
        num_replicas=2,
        max_replicas_per_node=1,
        ray_actor_options={"num_cpus": 0},
        graceful_shutdown_wait_loop_s=0,
    )
    class Single:
        def __init__(self, number: int) -> None:
            self.number = number

        def __call__(self) -> int:
            return self.number

    def states() -> dict[str, int]:
        row = serve.status().applications["default"].deployments["Single"]
        return {state.value: count for state, count in row.replica_states.items()}

    start()
    handle = serve.run(Single.bind(1), _blocking=False)
    eventually(lambda: states() == {"RUNNING": 1, "STARTING": 1})
    serve.run(Single.options(num_replicas=1).bind(2))  # the old replica ends first: there is one place
    eventually(lambda: states() == {"RUNNING": 1})
    assert handle.remote().result() == 2
