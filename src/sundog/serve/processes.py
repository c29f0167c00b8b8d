"""What the processes of Serve need: controller, proxies, replicas. Importing this module imports what all of them need.

Owns the list, and those of what replicas (`SOON`) and proxies (`LATER`) need besides. The zygote of a session whose
program uses Serve loads all of them, so that no process of Serve imports them by itself; the controller waits for the
first list only. Nothing here may start a thread or open anything at its import: a fork copies neither. Runs in the
zygote.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module

for _name in (
    "sundog.serve.controller",
    "sundog.serve.deployment",
    "sundog.serve.proxy",
    "sundog.serve.replica",
    # Modules that each of these uses, and that the runtime would import at their first use.
    "encodings.ascii",
    "encodings.idna",
    "sundog.api",
    "sundog.engines.local",
    "sundog.runtime_context",
    "sundog.worker.async_start",
):
    with suppress(ImportError):
        import_module(_name)

# In small steps: a requested fork waits for one step at most.
SOON = ("starlette.datastructures", "starlette.concurrency", "starlette.requests")
LATER = (
    "uvicorn",
    "sundog.serve.http_protocol",  # needs httptools
    "starlette.responses",
    "anyio._backends._asyncio",
    "uvicorn.protocols.websockets.auto",
)
