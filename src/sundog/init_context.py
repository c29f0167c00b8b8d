"""What `init()` returns and says: the facts of a session, a card of them in a notebook, one line in a terminal.

Owns `InitContext` and the words of that line. Runs in drivers, on the calling thread.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sundog.exceptions import RayError

if TYPE_CHECKING:
    from sundog.observe.activity import Watcher

NEXT_COMMAND = "sundog status"
_METRICS = "metrics_export_port"
_ENDED = "none: this program has left the session"


class InitContext(dict[str, Any]):
    """What `init()` returns: facts of the session, usable as a context manager that shuts it down."""

    @property
    def address_info(self) -> InitContext:
        """The same facts, with the port of the figures."""
        if _METRICS in self:
            self.__getitem__(_METRICS)
        return self

    def __getitem__(self, name: str) -> Any:
        """One fact. The node gives the session a port for its figures when that is first read."""
        if name == _METRICS and super().__getitem__(name) is None:
            self[name] = self._metrics_port()
        return super().__getitem__(name)

    def _metrics_port(self) -> int | None:
        from sundog.session_facts import nodes

        if not self._is_here():
            return None
        rows = nodes()
        return next(
            (row["MetricsExportPort"] or None for row in rows if row["NodeID"] == self["node_id"]), None
        )

    @property
    def dashboard_url(self) -> str | None:
        """Where the dashboard is, if there is one."""
        return self.get("webui_url")

    def disconnect(self) -> None:
        """Leave the session."""
        from sundog.api import shutdown

        shutdown()

    def __repr__(self) -> str:
        """One line: a console shows it after `init()`. All facts: `dict(context)`."""
        name, folder = self.get("session_name"), self.get("session_dir")
        return f"InitContext(session_name={name!r}, session_dir={folder!r}, dashboard_url={self.dashboard_url!r})"

    def __enter__(self) -> InitContext:
        return self

    def __exit__(self, *_: object) -> None:
        self.disconnect()

    def _repr_html_(self) -> str:
        """A card, for notebooks: the session, and what it does now."""
        from sundog.observe import cards

        activity = None
        if self._is_here():
            watcher = self._watcher()
            with contextlib.suppress(Exception):  # the session may end at any moment
                activity = watcher.look()
        return cards.card(self._facts(), activity)

    def _ipython_display_(self) -> None:
        """In a notebook: the same card, drawn again each second while the session runs."""
        from sundog import engines
        from sundog.observe import cards

        if not (cards.in_notebook() and self._is_here()):
            print(repr(self))
            return
        live = cards.LiveCard(
            self._watcher(),
            lambda activity: cards.card(self._facts(), activity),
            self._is_here,
            cards.show_html,
        )
        engines.when_leaving(live.stop)

    def _watcher(self) -> Watcher:
        from sundog import api
        from sundog.observe.activity import Watcher

        return Watcher(api.control, str(self["session_dir"]))

    def _facts(self) -> dict[str, str]:
        from html import escape

        found = {
            "Session": escape(str(self.get("session_name"))),
            "Resources": escape(self._resources_now()),
            "Files": escape(str(self.get("session_dir"))),
            "What runs and waits": escape(f"{NEXT_COMMAND} --session {self.get('session_name')}"),
        }
        if self.dashboard_url:
            found["Dashboard"] = escape(str(self.dashboard_url))
        return found

    def _is_here(self) -> bool:
        """Whether this process is in the session; without one the question itself would start one."""
        from sundog import engines
        from sundog.owner import context

        name = self.get("session_name")
        return engines.current() is not None and context.facts.session.get("name") == name

    def _resources_now(self) -> str:
        from sundog import session_facts

        if not self._is_here():
            return _ENDED
        try:
            return in_words(session_facts.cluster_resources())
        except RayError:
            return _ENDED


def in_words(resources: Mapping[str, float]) -> str:
    """The resources that people ask for first.

    >>> in_words({"CPU": 4.0, "GPU": 1.0, "disk": 2.0, "object_store_memory": 3 * 2**30})
    '4 CPUs, 1 GPU, 2 disk, 3.0 GiB for objects'
    """
    parts = [_count(resources.get("CPU", 0.0), "CPU")]
    if resources.get("GPU"):
        parts.append(_count(resources["GPU"], "GPU"))
    known = ("CPU", "GPU", "memory", "object_store_memory")
    others = [name for name in resources if name not in known and not name.startswith("node:")]
    parts += [f"{resources[name]:g} {name}" for name in others[:3]]
    room = resources.get("object_store_memory", 0.0)
    parts.append(
        f"{room / 2**30:.1f} GiB for objects" if room >= 2**30 else f"{room / 2**20:.0f} MiB for objects"
    )
    return ", ".join(parts)


def _count(amount: float, what: str) -> str:
    return f"{amount:g} {what}" + ("" if amount == 1 else "s")


def started_text(name: str, resources: Mapping[str, float]) -> str:
    """What a terminal shows when a session was started."""
    return f"Started {name} with {in_words(resources)}. What runs and waits: {NEXT_COMMAND}"


def joined_text(name: str) -> str:
    """What a terminal shows when a session was joined."""
    return f"Joined {name}. What runs and waits: {NEXT_COMMAND} --session {name}"
