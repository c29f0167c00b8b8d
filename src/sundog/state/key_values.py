"""The session's table of small values under keys, by namespace. A pure machine: the node holds one.

Owns the values; they live as long as the session. Refuses nothing: the caller has checked the types.
"""

from __future__ import annotations


class KeyValues:
    """Values by namespace and key."""

    def __init__(self) -> None:
        self._tables: dict[bytes, dict[bytes, bytes]] = {}

    def put(self, namespace: bytes, key: bytes, value: bytes, overwrite: bool) -> bool:
        """Set a value; whether the key had one before. Without `overwrite` the old value stays."""
        table = self._tables.setdefault(namespace, {})
        known = key in table
        if overwrite or not known:
            table[key] = value
        return known

    def get(self, namespace: bytes, key: bytes) -> bytes | None:
        """The value of a key."""
        return self._tables.get(namespace, {}).get(key)

    def keys(self, namespace: bytes, prefix: bytes) -> list[bytes]:
        """All keys that begin so."""
        return [key for key in self._tables.get(namespace, ()) if key.startswith(prefix)]

    def remove(self, namespace: bytes, key: bytes, by_prefix: bool) -> int:
        """Remove a key, or all that begin so; how many there were."""
        table = self._tables.get(namespace, {})
        doomed = self.keys(namespace, key) if by_prefix else [key] * (key in table)
        for each in doomed:
            del table[each]
        if not table:
            self._tables.pop(namespace, None)
        return len(doomed)
