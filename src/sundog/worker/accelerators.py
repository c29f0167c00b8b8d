"""Which accelerators a process may see: their ids, and the variables by which libraries find them.

Owns what the variables said before the first lease. Ids that the user had set (numbers in another order, or UUIDs)
stay the user's: the node counts 0, 1, 2…, and the id with that position in the variable is the one that a task gets.
Main thread of a worker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sundog.accelerator_kinds import GPU, KINDS
from sundog.config import Config
from sundog.machine import visible_ids

_OFF = ("", "0", "false", "no", "off")
# A program with one or two of a host's TPU chips needs the layout of these chips; a program with more has all
# chips.
_TPU_BOUNDS = {1: "1,1,1", 2: "1,2,1"}


class Accelerators:
    """The accelerators of one worker process."""

    def __init__(self, config: Config, environ: Mapping[str, str]) -> None:
        self._before = {name: environ.get(kind.variable) for name, kind in KINDS.items()}
        self._left_alone = {
            name for name, kind in KINDS.items() if environ.get(kind.noset, "").lower() not in _OFF
        }
        if config.experimental_noset_cuda_visible_devices:
            self._left_alone.add(GPU)
        self._hides_all = config.accel_env_var_override_on_zero
        self._set: set[str] = set()  # kinds whose environment variable sundog has set

    def named(self, kind: str, positions: Sequence[int]) -> tuple[int | str, ...]:
        """The pieces at these positions, as the user calls them."""
        before = visible_ids(self._before[kind])
        if before is None:
            return tuple(positions)
        return tuple(before[at] if at < len(before) else str(at) for at in positions)

    def variables(self, held: Mapping[str, Sequence[int | str]]) -> dict[str, str | None]:
        """The variables for a process that got these devices; without devices of a kind, its variable keeps
        the user's value.
        """
        updates: dict[str, str | None] = {}
        for name in self._set - held.keys():
            updates[KINDS[name].variable] = self._before[name]
            if name == "TPU":
                updates["TPU_CHIPS_PER_HOST_BOUNDS"] = updates["TPU_HOST_BOUNDS"] = None
        self._set -= self._set - held.keys()
        if self._hides_all and GPU not in held:
            held = {**held, GPU: ()}
        for name, ids in held.items():
            if name in self._left_alone:
                continue
            updates[KINDS[name].variable] = ",".join(map(str, ids))
            if name == "TPU":
                bounds = _TPU_BOUNDS.get(len(ids))
                updates["TPU_CHIPS_PER_HOST_BOUNDS"] = bounds
                updates["TPU_HOST_BOUNDS"] = "1,1,1" if bounds else None
            if ids:
                self._set.add(name)
        return updates
