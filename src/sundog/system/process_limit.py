"""How many processes and threads this user may have, in words for a user who hits that limit.

Owns one sentence. Imports nothing of ours: the node's first milliseconds may need it. Runs in any process, any thread.
"""

from __future__ import annotations

import resource


def text() -> str:
    """What people read when the system refuses a process or a thread."""
    limit = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    known = "has no limit of its own" if limit == resource.RLIM_INFINITY else f"may have {limit} (ulimit -u)"
    return (
        f"The system allows no more processes and threads: this user {known}, and a container may allow fewer. End "
        "some, or raise the limit before the program starts."
    )
