"""A `multiprocessing.Pool` whose processes are actors. Owns names only."""

from __future__ import annotations

from multiprocessing import JoinableQueue, TimeoutError

from sundog.util.multiprocessing.pool import Pool

__all__ = ["JoinableQueue", "Pool", "TimeoutError"]
