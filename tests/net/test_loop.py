"""Lines on a loop: what the dead sent is read to its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sundog.net.loop import Line, Loop
from sundog.net.packets import Connection, make_pair


@pytest.mark.parametrize("open_elsewhere", [False, True])
def test_all_that_a_dead_process_sent_is_drained(tmp_path: Path, open_elsewhere: bool) -> None:
    loop = Loop()
    ours, theirs = make_pair()
    read: list[Any] = []
    line = Line(
        loop, Connection(ours, str(tmp_path)), lambda message, fds: read.append(message), lambda: None
    )
    for number in range(100):
        Connection(theirs, str(tmp_path)).send((number,))
    if not open_elsewhere:  # a child of the dead one may hold its socket open
        theirs.close()
    line.drain()
    assert read == [(number,) for number in range(100)]
    assert line.closed is not open_elsewhere
    line.close()
    theirs.close()
    loop._epoll.close()
