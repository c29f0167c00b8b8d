"""When it happens: the node process of the session was killed or crashed. Its workers end with it, and every
verb raises this.

What to do: look at the end of the node's log, then call `shutdown()` and `init()` to start a new session.
"""

from __future__ import annotations

from sundog.exceptions import LocalRayletDiedError

RAISES = LocalRayletDiedError


def happen() -> None:
    import json
    import os
    import signal
    import time

    import sundog as ray

    session = ray.init(num_cpus=1)

    @ray.remote
    def sleep(seconds: float) -> None:
        time.sleep(seconds)

    ray.get(sleep.remote(0))
    ref = sleep.remote(1e6)
    with open(f"{session.address_info['session_dir']}/session.json") as file:
        os.kill(json.load(file)["node_pid"], signal.SIGKILL)
    ray.get(ref)
