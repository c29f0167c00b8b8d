"""`Queue` under its older path."""

from __future__ import annotations

from sundog.util.queue import Empty, Full, Queue

__all__ = ["Empty", "Full", "Queue"]
