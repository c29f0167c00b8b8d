"""The session that programs join without being told: the one that `sundog start --head` or a `Cluster` started last.

Its node leaves a link in the folder of sessions. Owns the look at it, which every `init()` without an address makes:
where there is no link, it costs one question to the kernel. Any thread.
"""

from __future__ import annotations

import os

from sundog import config as config_module
from sundog import trust
from sundog.engines.sessions import SessionInfo, read_session
from sundog.store.folders import STARTED


def find(temp_dir: str) -> SessionInfo | None:
    """The session, if it is alive and this user's."""
    default = config_module.default_temp_dir()
    wanted = os.path.abspath(temp_dir or default)
    for home in trust.homes(default) if wanted == default else [wanted]:
        try:
            name = os.readlink(os.path.join(home, STARTED))
        except OSError:
            continue
        info = read_session(os.path.join(home, os.path.basename(name)))
        if info is not None:
            return info
    return None
