"""The session's folder, should it be removed while the session runs: a cleaner of temporary files, a user.

Owns the look for it, once a second, and making it again: its parts, the lock, the socket, and what others read to
join. What was logged and recorded before is gone; what runs continues. Runs on the node's only thread.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sundog import trust
from sundog.printable import printable
from sundog.store import folders
from sundog.wire.control import WarnOnce

if TYPE_CHECKING:
    from sundog.node.interfaces import NodeBasics

_PARTS = ("", "/logs", "/rings")


class OwnFolder:
    """Watches the folder of the session."""

    def __init__(self, node: NodeBasics) -> None:
        self.node = node
        self._path: str = node.session["path"]
        self._lock = -1  # the lock of a folder that was created again; the first lock came with the start

    def is_whole(self) -> bool:
        """Whether everything is there that the session needs to continue and to be joined."""
        return all(os.path.exists(self._path + name) for name in (*_PARTS, "/lock", "/node.sock"))

    def look(self) -> None:
        """Make the folder again if it is gone, or part of it is."""
        if self.is_whole() or self.node.stopping or self.node.closed_to_others:
            return
        try:
            self.make_again()
        except OSError as error:
            self.node.log(f"the session's folder is gone and cannot be made again: {error}")
            return
        self.node.reopen()
        self._tell()

    def make_again(self) -> None:
        """Make what is missing of the folder, and lock it: a session without its lock is taken for dead.

        Raises:
            OSError: it cannot be made, or another user made a folder of its name.
        """
        home = os.path.dirname(self._path)
        trust.make_missing(home)
        trust.check_container(home)
        spilled = [each for each in self.node.session["spill_folders"] if each.startswith(f"{self._path}/")]
        for folder in (*[self._path + part for part in _PARTS], *spilled):
            trust.make_folder(folder)
        if not os.path.exists(f"{self._path}/lock"):
            lock = folders.make_lock(self._path)
            if self._lock >= 0:
                os.close(self._lock)
            self._lock = lock

    def _tell(self) -> None:
        text = (
            f"The folder of this session, {printable(self._path)}, was removed, or part of it. It was made again; logs "
            "and records from before are lost. If a cleaner of temporary files did this, use another folder: "
            'init(_temp_dir="...").'
        )
        self.node.log(text)
        for job in self.node.jobs.values():
            driver = self.node.processes.get(job.driver)
            if driver is not None:
                driver.line.send(WarnOnce("folder", text))
