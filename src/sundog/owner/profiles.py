"""Profiles of this process that the node asks for.

Owns nothing: the work is done by `sundog.profiling`, which stands above this layer and is imported by name, at the
first one. Runs in a driver or worker; the messages come under the owner's lock, the work is done elsewhere.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from sundog.wire.control import StartProfile, StopProfile

if TYPE_CHECKING:
    from types import ModuleType

    from sundog.owner.core import Owner


class ProcessProfiles:
    """The profiles of one process."""

    def __init__(self, owner: Owner, role: str) -> None:
        self._owner = owner
        self._role = role

    def start(self, message: StartProfile) -> None:
        """Begin one."""
        self._owner.deliveries.bring(
            _recorder().start, message.spec, self._role, self._owner.control.session["path"]
        )

    def stop(self, message: StopProfile) -> None:
        """End one, and write what was found."""
        self._owner.deliveries.bring(_recorder().stop, message.profile_id)


def _recorder() -> ModuleType:
    return import_module("sundog.profiling.recorder")
