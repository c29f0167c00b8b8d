"""What `init()` returns and says: the facts of a session, a card of them in a notebook, one line in a terminal.

Owns `InitContext` and the words of that line. Runs in drivers, on the calling thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sundog.exceptions import RayError

NEXT_COMMAND = "sundog status"
_ENDED = "none: this program has left the session"


class InitContext(dict[str, Any]):
    """What `init()` returns: facts of the session, usable as a context manager that shuts it down."""

    @property
    def address_info(self) -> dict[str, Any]:
        """The same facts."""
        return self

    @property
    def dashboard_url(self) -> str | None:
        """Where the dashboard is, if there is one."""
        return self.get("webui_url")

    def disconnect(self) -> None:
        """Leave the session."""
        from sundog.api import shutdown

        shutdown()

    def __enter__(self) -> InitContext:
        return self

    def __exit__(self, *_: object) -> None:
        self.disconnect()

    def _repr_html_(self) -> str:
        """A short card, for notebooks."""
        from html import escape

        rows = {
            "Session": str(self.get("session_name")),
            "Resources": self._resources_now(),
            "Files": str(self.get("session_dir")),
            "What runs and waits": f"{NEXT_COMMAND} --session {self.get('session_name')}",
        }
        style = "style='text-align:left'"
        cells = "".join(
            f"<tr><th {style}>{name}</th><td {style}>{escape(value)}</td></tr>"
            for name, value in rows.items()
        )
        return f"<div><b>sundog</b><table>{cells}</table></div>"

    def _resources_now(self) -> str:
        from sundog import engines, session_facts
        from sundog.owner import context

        # Without a session the question itself would start one.
        if engines.current() is None or context.facts.session.get("name") != self.get("session_name"):
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
    parts.append(f"{resources.get('object_store_memory', 0.0) / 2**30:.1f} GiB for objects")
    return ", ".join(parts)


def _count(amount: float, what: str) -> str:
    return f"{amount:g} {what}" + ("" if amount == 1 else "s")


def started_text(name: str, resources: Mapping[str, float]) -> str:
    """What a terminal shows when a session was started."""
    return f"Started {name} with {in_words(resources)}. What runs and waits: {NEXT_COMMAND}"


def joined_text(name: str) -> str:
    """What a terminal shows when a session was joined."""
    return f"Joined {name}. What runs and waits: {NEXT_COMMAND} --session {name}"
