"""Generators of refs under their public names; they live with the owner that feeds them."""

from __future__ import annotations

from sundog.owner.generators import (
    DynamicObjectRefGenerator,
    ObjectRefGenerator,
    StreamingObjectRefGenerator,
)

__all__ = ["DynamicObjectRefGenerator", "ObjectRefGenerator", "StreamingObjectRefGenerator"]
