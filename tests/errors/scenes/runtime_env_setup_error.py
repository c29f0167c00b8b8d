"""When it happens: the environment that a task, an actor or the session asked for could not be made: a package could
not be installed, a folder could not be packed, or a hook failed. The message has the output of the tool that failed.

What to do: read that output. Until the cause is removed, every task and actor with this environment fails in the
same way.
"""

from __future__ import annotations

from sundog.exceptions import RuntimeEnvSetupError

RAISES = RuntimeEnvSetupError


def happen() -> None:
    import sundog as ray

    ray.init(num_cpus=1)

    def check_out() -> None:
        raise ConnectionRefusedError("the licence server is down")

    @ray.remote(runtime_env={"worker_process_setup_hook": check_out})
    def work() -> None:
        pass

    ray.get(work.remote())
