"""The applications that are measured: the same code for sundog and for Ray; started as programs by `__main__.py`.

Usage: ``python apps.py sundog|ray|uvicorn PORT``. Prints ``ready SECONDS`` when the first request has been
answered, and ends when its standard input is closed.
"""

from __future__ import annotations

import sys
import time
import urllib.request
from typing import Any

BEGAN = time.perf_counter()


def deployments(serve: Any) -> dict[str, Any]:
    """The applications, by name."""
    from starlette.requests import Request
    from starlette.responses import StreamingResponse

    options = {"max_ongoing_requests": 100, "ray_actor_options": {"num_cpus": 0}}

    @serve.deployment(**options)
    class Noop:
        async def __call__(self, _request: Request) -> str:
            return "ok"

    @serve.deployment(**options)
    class Link:
        def __init__(self, following: Any = None) -> None:
            self.following = following

        async def step(self, value: int) -> int:
            return value if self.following is None else await self.following.step.remote(value + 1)

        async def __call__(self, _request: Request) -> str:
            return str(await self.step(0))

    @serve.deployment(**options)
    class Batch:
        @serve.batch(max_batch_size=8, batch_wait_timeout_s=0.005)
        async def work(self, values: list[int]) -> list[int]:
            return values

        async def __call__(self, _request: Request) -> str:
            return str(await self.work(1))

    @serve.deployment(**options)
    class Stream:
        def __call__(self, _request: Request) -> StreamingResponse:
            async def items() -> Any:
                for each in range(10):
                    yield f"{each}\n"

            return StreamingResponse(items())

    @serve.deployment(**options)
    class Body:
        async def __call__(self, request: Request) -> str:
            return str(len(await request.body()))

    return {
        "noop": Noop.bind(),
        "chain": Link.bind(Link.bind(Link.bind())),
        "batch": Batch.bind(),
        "stream": Stream.bind(),
        "body": Body.bind(),
    }


def serve_apps(which: str, port: int) -> None:
    """Run them on one port, each under its own prefix."""
    if which == "ray":
        import ray
        from ray import serve
    else:
        import sundog as ray
        from sundog import serve
    ray.init(num_cpus=4, include_dashboard=False)
    serve.start(http_options={"port": port})
    for name, app in deployments(serve).items():
        serve.run(app, name=name, route_prefix=f"/{name}")
        if name == "noop":
            first(port)
    print("all", flush=True)
    sys.stdin.read()
    serve.shutdown()
    ray.shutdown()


def plain_app() -> Any:
    """What a user would take otherwise."""
    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.responses import Response

    app = FastAPI()

    @app.get("/noop")
    async def noop() -> str:
        return "ok"

    async def body(request: Request) -> Response:
        return Response(str(len(await request.body())))

    app.add_route("/body", body, methods=["POST"])
    return app


def first(port: int) -> None:
    """Wait for the first answer, and tell how long it took."""
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/noop", timeout=5).read()
            break
        except OSError:
            time.sleep(0.01)
    print(f"ready {time.perf_counter() - BEGAN:.3f}", flush=True)


def main() -> None:
    """Start one of them."""
    which, port = sys.argv[1], int(sys.argv[2])
    if which != "uvicorn":
        serve_apps(which, port)
        return
    import subprocess

    command = [
        sys.executable,
        "-m",
        "uvicorn",
        "--factory",
        "benchmarks.serve.apps:plain_app",
        "--workers",
        "2",
    ]
    server = subprocess.Popen([*command, "--port", str(port), "--log-level", "warning"])
    first(port)
    print("all", flush=True)
    sys.stdin.read()
    server.terminate()
    server.wait()


if __name__ == "__main__":
    main()
