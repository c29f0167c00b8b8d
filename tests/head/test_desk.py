"""What the parts of the head process share."""

from __future__ import annotations

import asyncio
import threading

from sundog.head.desk import HeadDesk
from sundog.observe.sessions import Opened
from tests.head.conftest import INFO


def test_what_blocks_runs_beside_the_event_loop(ended: Opened) -> None:
    async def ask() -> tuple[str, int]:
        desk = HeadDesk(ended, INFO)
        try:
            await desk.open()
            name = await desk.blocking(lambda: threading.current_thread().name)
            return name, await desk.blocking(int, "7", base=8)
        finally:
            await desk.close()

    name, seven = asyncio.run(ask())
    assert name.startswith("sundog-head") and seven == 7
