"""What users see of Serve in the state API."""

from __future__ import annotations

from types import ModuleType

from sundog import serve
from sundog.util import state
from tests.integration.serve.services import eventually, get, start


def test_an_idle_serve_shows_no_running_call(ray: ModuleType) -> None:
    port = start()

    @serve.deployment(ray_actor_options={"num_cpus": 0})
    def hello() -> str:
        return "hello"

    serve.run(hello.bind())
    assert get("/", port)[:2] == (200, "hello")
    calls = [("type", "=", "ACTOR_TASK")]
    eventually(lambda: not state.list_tasks(filters=[*calls, ("state", "=", "RUNNING")]))
    eventually(lambda: any("handle_http" in each.name for each in state.list_tasks(filters=calls)))
