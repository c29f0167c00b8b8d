"""Generators of refs under their public names; they live with the owner that feeds them."""

from __future__ import annotations

from sundog.owner.dynamic_items import DynamicObjectRefGenerator
from sundog.owner.generators import ObjectRefGenerator, StreamingObjectRefGenerator

__all__ = ["DynamicObjectRefGenerator", "ObjectRefGenerator", "StreamingObjectRefGenerator"]
