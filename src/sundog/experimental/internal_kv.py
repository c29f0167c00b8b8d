"""Small values under keys that all processes of a session see, under the names that Ray's libraries use.

Owns the check of what is given. The table is the node's (`state/key_values.py`) and ends with the session; it is for
addresses and settings, not for data. On a Ray cluster the calls go to Ray. Runs in any process, any thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sundog import api, engines
from sundog.exceptions import RaySystemError
from sundog.wire.requests import KeyValueDel, KeyValueGet, KeyValueKeys, KeyValuePut

if TYPE_CHECKING:
    from typing import TypeVar

    from sundog.wire.requests import Request

    A = TypeVar("A")

Text = str | bytes


class BadKeyError(TypeError, AssertionError):
    """Neither text nor bytes; `AssertionError`, too, which is what Ray raises."""


def _internal_kv_initialized() -> bool:
    """Whether this process is in a session, so that there is a table."""
    return bool(api.is_initialized())


def _internal_kv_get(key: Text, *, namespace: Text | None = None) -> bytes | None:
    """The value of a key; None if there is none.

    Args:
        key: text, or bytes.
        namespace: keys of different namespaces have nothing to do with each other.

    Raises:
        TypeError: something is neither text nor bytes.
        RaySystemError: this process is in no session.
    """
    row = KeyValueGet(_bytes("namespace", namespace), _bytes("key", key))
    found: bytes | None = _ask("get", row, key, namespace=namespace)
    return found


def _internal_kv_exists(key: Text, *, namespace: Text | None = None) -> bool:
    """Whether a key has a value."""
    return _internal_kv_get(key, namespace=namespace) is not None


def _internal_kv_put(
    key: Text, value: Text, overwrite: bool = True, *, namespace: Text | None = None
) -> bool:
    """Set the value of a key.

    Args:
        key: text, or bytes.
        value: text, or bytes.
        overwrite: False leaves a value that is there.
        namespace: keys of different namespaces have nothing to do with each other.

    Returns:
        Whether the key had a value before.

    Raises:
        TypeError: something is neither text nor bytes, or `overwrite` is no bool.
        RaySystemError: this process is in no session.
    """
    if not isinstance(overwrite, bool):
        raise BadKeyError(f"overwrite must be a bool, not {overwrite!r}.")
    row = KeyValuePut(_bytes("namespace", namespace), _bytes("key", key), _bytes("value", value), overwrite)
    return bool(_ask("put", row, key, value, overwrite, namespace=namespace))


def _internal_kv_del(key: Text, *, del_by_prefix: bool = False, namespace: Text | None = None) -> int:
    """Remove a key, with `del_by_prefix` all that begin so; how many there were."""
    row = KeyValueDel(_bytes("namespace", namespace), _bytes("key", key), bool(del_by_prefix))
    return int(_ask("del", row, key, del_by_prefix=del_by_prefix, namespace=namespace))


def _internal_kv_list(prefix: Text, *, namespace: Text | None = None) -> list[bytes]:
    """The keys that begin so, as bytes."""
    row = KeyValueKeys(_bytes("namespace", namespace), _bytes("prefix", prefix))
    found = _ask("list", row, prefix, namespace=namespace)
    return list(found)


def _bytes(name: str, text: Text | None) -> bytes:
    if text is None and name == "namespace":
        return b""
    if isinstance(text, str):
        return text.encode()
    if not isinstance(text, bytes):
        raise BadKeyError(f"{name} must be str or bytes, not {text!r}.")
    return text


def _ask(verb: str, row: Request[A], *args: object, **kwargs: object) -> A:
    if engines.foreign is not None:
        told: A = engines.foreign.key_values(verb, *args, **kwargs)
        return told
    if not api.is_initialized():
        raise RaySystemError("There is no session whose keys could be read or set: call init() first.")
    return api.control(row)
