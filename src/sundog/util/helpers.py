"""`as_completed` and `map_unordered`, under the path by which programs written for Ray import them."""

from __future__ import annotations

from sundog.util.completion import (
    DEFAULT_BACKPRESSURE_SIZE,
    DEFAULT_CHUNK_SIZE,
    as_completed,
    map_unordered,
)

__all__ = ["DEFAULT_BACKPRESSURE_SIZE", "DEFAULT_CHUNK_SIZE", "as_completed", "map_unordered"]
