"""Ray's module path of `ObjectRef`, for programs that annotate with it. Owns nothing."""

from __future__ import annotations

from sundog.refs import ObjectRef

__all__ = ["ObjectRef"]
