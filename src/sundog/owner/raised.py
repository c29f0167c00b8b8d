"""Errors that are the values of objects, as the reader of an object gets them.

Owns what becomes of a stored error when it is raised. Any thread; without the owner's lock, for it looks through this
process' refs.
"""

from __future__ import annotations

from sundog import refs
from sundog.exceptions import ObjectLostError, RaySystemError, RayTaskError

_CHAIN_SHOWN = 20


def as_raised(error: object) -> BaseException:
    """The exception to raise for a stored error."""
    if isinstance(error, RayTaskError):
        return error.as_instanceof_cause()
    if isinstance(error, ObjectLostError):
        tell_site(error)
    if isinstance(error, BaseException):
        return error
    return RaySystemError(f"A failed task stored {error!r} instead of an error.")


def tell_site(error: ObjectLostError) -> None:
    """Add to an error that is about to be raised where the refs to its objects were made, if this process
    knows it.
    """
    if error.call_site or not error.object_ref_hex:
        return
    chain: list[tuple[str, str]] = getattr(error, "chain", None) or []
    names = dict.fromkeys([error.object_ref_hex, *(each for each, _ in chain)])
    found = refs.creation_sites(names)
    if not found:
        return
    error.call_site = found.get(error.object_ref_hex)
    lines = [f"\nObject {name} was created at {found[name]}." for name in names if name in found]
    error.message = "".join([error.message, *lines[:_CHAIN_SHOWN]])
    error.args = (error.message,)


def unreadable(oid: bytes, error: Exception) -> RaySystemError:
    """An object is here, and its value cannot be made from its bytes in this process."""
    return RaySystemError(
        f"Object {oid.hex()} cannot be unpickled in this process: {type(error).__name__}: {error}. Either its class "
        "raises when it is loaded, or a module that it needs is missing or different here."
    )
