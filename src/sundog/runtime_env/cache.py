"""Where installed packages are kept between sessions, and whether they can be trusted.

Owns the place of pip environments: their `.pth` files run as soon as a worker uses one, so that no other user may
ever have been able to write there. Refuses a folder that others own or can write to; then the packages are installed in
the session's own folder, which no other user can enter. Runs in the submitting process and in workers.
"""

from __future__ import annotations

import os

from sundog import trust

_NAME = os.path.join("runtime_resources", "pip")


def pip_folder(session_dir: str) -> str:
    """The folder for pip environments: beside the sessions, for installing takes long enough to be worth keeping.

    Raises:
        OSError: none can be made.
    """
    session_dir = os.path.abspath(session_dir)
    shared = os.path.join(os.path.dirname(session_dir), _NAME)
    try:
        _make(shared)
        return shared
    except OSError:
        own = os.path.join(session_dir, _NAME)
        _make(own)
        return own


def is_safe(pip_dir: str) -> bool:
    """Whether only this user can have put anything into a pip environment."""
    folder = os.path.dirname(pip_dir)
    return trust.is_ours(os.path.dirname(folder)) and trust.is_ours(folder) and trust.is_ours(pip_dir)


def _make(folder: str) -> None:
    trust.make_folder(os.path.dirname(folder))
    trust.make_folder(folder)
