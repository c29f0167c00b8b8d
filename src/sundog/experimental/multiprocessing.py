"""`Pool` under its older path."""

from __future__ import annotations

from sundog.util.multiprocessing import Pool, TimeoutError

__all__ = ["Pool", "TimeoutError"]
