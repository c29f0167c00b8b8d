"""The session that a command looks at: running, ended, or packed into one file by `sundog session export`.

::

    latest | ID | PATH | FILE ──► open_session ──► Opened: its folder, and its node if that lives

Owns what each of these words means, for every command and for the state API. Refuses folders and files of other users
(`sundog.trust`), and never runs what it finds: a packed session is unpacked, nothing in it is unpickled. Runs in the
caller's process and thread; starts nothing, joins nothing.
"""

from __future__ import annotations

import os
from typing import TypeVar

from sundog import trust
from sundog.engines import sessions
from sundog.observe import packed
from sundog.plain import plain
from sundog.printable import printable
from sundog.store import folders
from sundog.wire.requests import Request

A = TypeVar("A")

LATEST = "latest"
_ANY = frozenset({"", LATEST, "auto", "local"})
_TIMEOUT_S = 30.0
_SHOWN_MAX = 5


class NoSuchSession(LookupError):
    """No session is meant by the word that was given. The text is for the user."""


@plain(frozen=True)
class Opened:
    """A session whose files can be read; while `info` is there, its node can be asked too."""

    name: str
    path: str
    info: sessions.SessionInfo | None = None
    file: str = ""  # the packed file from which it was unpacked

    @property
    def is_live(self) -> bool:
        """Whether its node runs."""
        return self.info is not None

    def ask(self, question: Request[A], timeout_s: float = _TIMEOUT_S) -> A:
        """Ask the node of a running session.

        Raises:
            ConnectionError: the session has ended.
        """
        if self.info is None:
            raise ConnectionError(
                f"The session {printable(self.name)} has ended: only its records can be read."
            )
        return sessions.request(self.info, question, timeout_s=timeout_s)


def open_session(which: str | None = None, temp_dir: str | None = None) -> Opened:
    """The session that a word means.

    Args:
        which: "latest" (a running session before an ended one, the newest first), a session's name or a part of it
            that no other has, its folder, or a file of `sundog session export`.
        temp_dir: where sessions are looked for; by default where this user's are.

    Raises:
        NoSuchSession: there is none, several are meant, it is another user's, or the file is no session.
    """
    return _started(_meant(which or LATEST, temp_dir))


def _meant(which: str, temp_dir: str | None) -> Opened:
    if which in _ANY:
        return _latest(temp_dir)
    found = all_sessions(temp_dir)
    exact = [each for each in found if which in (each.name, each.path)]
    if exact:
        return exact[0]
    if os.path.sep in which or os.path.lexists(which):
        return _at_path(which)
    meant = [each for each in found if which in each.name]
    if len(meant) == 1:
        return meant[0]
    if meant:
        names = ", ".join(each.name for each in meant[:_SHOWN_MAX])
        raise NoSuchSession(f"{len(meant)} sessions have {printable(which)!r} in their names: {names}.")
    raise NoSuchSession(
        f"there is no session {printable(which)!r}, and no folder or file of that name. See: sundog session list"
    )


def _started(opened: Opened) -> Opened:
    """A session that is still starting has no `session.json` yet. Such a session is waited for, and not taken for an
    ended one."""
    if opened.is_live or opened.file or not sessions.is_alive(opened.path):
        return opened
    try:
        return Opened(opened.name, opened.path, sessions.resolve(opened.path))
    except ConnectionError:
        return opened


def all_sessions(temp_dir: str | None = None) -> list[Opened]:
    """Every session of this user that is found, running or ended, the newest first."""
    found = (_at(path) for path in sessions.session_paths(temp_dir))
    return [each for each in found if each is not None]


def _latest(temp_dir: str | None) -> Opened:
    found = all_sessions(temp_dir)
    chosen = next((each for each in found if each.is_live), found[0] if found else None)
    if chosen is None:
        raise NoSuchSession(
            "there is no session, running or ended. A program's init() starts one, and so does: sundog start --head"
        )
    return chosen


def _at(path: str) -> Opened | None:
    """A session by its folder; None if it is none of this user's."""
    if os.path.islink(path):
        return None  # session_latest
    info = sessions.read_session(path)
    if info is not None:
        return Opened(info.name, path, info)
    return Opened(os.path.basename(path), path) if folders.is_session(path) else None


def _at_path(given: str) -> Opened:
    path = os.path.realpath(given)
    try:
        if os.path.isdir(path):
            trust.check_folder(path)
            found = _at(path)
            if found is not None:
                return found
            if packed.is_unpacked(path):
                return Opened(os.path.basename(path), path)
            raise NoSuchSession(f"the folder {printable(given)} is not a session: it has no records.")
        name, folder = packed.unpack(path)
    except trust.Untrusted as error:
        raise NoSuchSession(f"the session {printable(given)} is not opened: {error.strerror}.") from None
    except packed.NotPacked as error:
        raise NoSuchSession(f"the file {printable(given)} cannot be opened: {error}.") from None
    except OSError as error:
        raise NoSuchSession(f"the session {printable(given)} is not opened: {error.strerror}.") from None
    return Opened(name, folder, None, path)
