"""The run of a session, for tests."""

from sundog.advice.doctor import _own_session
from sundog.advice.reading import read_run
from sundog.advice.run import Run
from sundog.observe.index import opened
from sundog.observe.sessions import open_session


def run_of(session: str | None = None) -> Run:
    """The run of a session: of this program's, if none is named."""
    chosen = open_session(session or _own_session())
    with opened(chosen.path) as index:
        return read_run(chosen, index)
