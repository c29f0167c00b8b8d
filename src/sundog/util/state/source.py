"""Where the state API gets its answers: this process's own session, or another one, running or ended.

Owns the choice of the session and the one question to its node. A process that is in no session asks as a command does,
without joining: it is no driver, and starts nothing. Runs in the caller's process and thread; keeps nothing.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

import sundog
from sundog import api, config, engines
from sundog.engines import sessions
from sundog.observe.sessions import NoSuchSession, open_session
from sundog.owner import context
from sundog.plain import NamedTuple
from sundog.util.state.exception import ServerUnavailable
from sundog.wire.requests import ListRows

if TYPE_CHECKING:
    from sundog.wire.requests import AskNode

_ANYWHERE = ("", "auto", "local")
_TIMEOUT_S = 30.0


class StateSource(NamedTuple):
    """A session that can be asked."""

    ask: AskNode  # a request to its node
    path: str
    is_live: bool = True

    def node_id(self) -> str:
        """The id of its node."""
        rows, _ = self.ask(ListRows("nodes"))
        return str(rows[0]["node_id"])


def find_source(address: str | None) -> StateSource:
    """The session at an address; by default the one this process is in, or the newest one that runs on this machine.

    Args:
        address: "auto", or what `observe.sessions.open_session` knows: also ended sessions and files.

    Raises:
        ServerUnavailable: there is none.
    """
    if (other := engines.foreign) is not None and address in (None, *_ANYWHERE, other.folder):
        other.flush()
        return StateSource(open_session(other.folder).ask, other.folder, is_live=False)
    if sundog.is_initialized():
        path = str(context.facts.session["path"])
        if address in (None, *_ANYWHERE, path):
            return StateSource(api.control, path)
    wanted = address or config.load().address or "auto"
    if wanted not in _ANYWHERE:
        with contextlib.suppress(NoSuchSession):
            opened = open_session(wanted)
            if opened.info is None:
                return StateSource(opened.ask, opened.path, is_live=False)
    try:
        found = sessions.resolve("auto" if wanted == "local" else wanted)
    except ConnectionError as error:
        raise ServerUnavailable(
            f"There is no session to ask at {wanted}: {error} "
            "Call init() first, or start one with: sundog start --head"
        ) from error
    return StateSource(partial(sessions.request, found, timeout_s=_TIMEOUT_S), found.path)
