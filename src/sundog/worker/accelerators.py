"""Which accelerators a process may see: their ids, and the variables by which libraries find them.

Owns the variables' names and what they said before the first lease. Ids that the user had set (numbers in another
order, or UUIDs) stay the user's: the node counts 0, 1, 2…, and the id with that position in the variable is the one
that a task gets. Main thread of a worker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sundog.config import Config
from sundog.machine import visible_ids

GPU_VARIABLE = "CUDA_VISIBLE_DEVICES"


class Accelerators:
    """The accelerators of one worker process."""

    def __init__(self, config: Config, environ: Mapping[str, str]) -> None:
        self._before = visible_ids(environ.get(GPU_VARIABLE))
        self._sets_variable = not config.experimental_noset_cuda_visible_devices
        self._hides_all = config.accel_env_var_override_on_zero

    def named(self, positions: Sequence[int]) -> tuple[int | str, ...]:
        """The GPUs at these positions, as the user calls them."""
        before = self._before
        if before is None:
            return tuple(positions)
        return tuple(before[at] if at < len(before) else str(at) for at in positions)

    def variables(self, gpus: Sequence[int | str]) -> dict[str, str]:
        """What to set for a process that got these GPUs; without any, the variable is left alone unless told."""
        if not self._sets_variable or not (gpus or self._hides_all):
            return {}
        return {GPU_VARIABLE: ",".join(str(each) for each in gpus)}
