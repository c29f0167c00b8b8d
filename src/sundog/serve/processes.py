"""What the processes of Serve need: controller, proxies, replicas. Importing this module imports all of it.

Owns the list. The zygote of a session whose program uses Serve loads it once, so that no process of Serve imports it by
itself. Nothing here may start a thread or open anything at its import: a fork copies neither. Runs in the zygote.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module

for _name in (
    "sundog.serve.controller",
    "sundog.serve.deployment",
    "sundog.serve.proxy",
    "sundog.serve.replica",
    "starlette.responses",
    "anyio._backends._asyncio",
    "uvicorn.server",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.websockets.auto",
    "sundog.serve.http_protocol",  # needs httptools
):
    with suppress(ImportError):
        import_module(_name)
