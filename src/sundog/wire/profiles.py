"""A profile of processes of a running session: what was asked for. Values only; any process."""

from __future__ import annotations

from sundog.plain import NamedTuple


class ProfileSpec(NamedTuple):
    """What to measure, and where to write it."""

    id: str
    kind: str  # cpu | wall | memory
    rate_hz: float
    limit_s: float  # after this time the profile ends by itself
    folder: str
    native: bool = False  # with the frames of C code
