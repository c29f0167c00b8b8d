"""Ray's module path of `inspect_serializability`; the code lives in `sundog.serialize.inspect`."""

from __future__ import annotations

from sundog.serialize.inspect import FailureTuple, inspect_serializability

__all__ = ["FailureTuple", "inspect_serializability"]
