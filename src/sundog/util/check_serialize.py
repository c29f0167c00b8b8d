"""Ray's module path of `inspect_serializability`; the code lives in `sundog.serialize.inspect`."""

from __future__ import annotations

from sundog.serialize.inspect import inspect_serializability

__all__ = ["inspect_serializability"]
