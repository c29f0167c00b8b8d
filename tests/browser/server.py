"""Serves the page of one session on a free port, and prints the port: `python -m tests.browser.server FOLDER`.

The page alone: tokens and other routes are the head process' and are tested with it.
"""

from __future__ import annotations

import asyncio
import socket
import sys

import uvicorn
from starlette.applications import Starlette

from sundog.dashboard.page import mount
from sundog.observe.sessions import open_session


def main(folder: str) -> None:
    app = Starlette()
    mount(app, open_session(folder))
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
    asyncio.run(uvicorn.Server(config).serve([listener]))


if __name__ == "__main__":
    main(sys.argv[1])
