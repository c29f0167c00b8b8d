"""The state API under its older path: every name of `sundog.util.state`."""

from __future__ import annotations

from sundog.util import state


def __getattr__(name: str) -> object:
    return getattr(state, name)


def __dir__() -> list[str]:
    return sorted(name for name in dir(state) if not name.startswith("_"))
