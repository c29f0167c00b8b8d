"""The fingerprint of a function's code: equal for equal source, in every process and session.

Pure. The fingerprint covers what the body does (instructions, constants, names, nested functions, defaults), not where
it
stands: paths and line numbers are left out, so that moving a function changes nothing.
"""

from __future__ import annotations

# hashlib would load OpenSSL first, and inspect is large: every worker imports this at its start.
from _blake2 import blake2b
from types import CodeType

FINGERPRINT_BYTES = 8
_WRAPPERS_MAX = 100


def fingerprint(target: object) -> str:
    """The fingerprint of a function, method or class (16 hex digits); "" of what has no Python code.

    >>> fingerprint(lambda x: x + 1) == fingerprint(lambda x: x + 1)
    True
    >>> fingerprint(lambda x: x + 1) == fingerprint(lambda x: x + 2)
    False
    """
    digest = blake2b(digest_size=FINGERPRINT_BYTES)
    if isinstance(target, type):
        codes = [code for _, member in sorted(vars(target).items()) if (code := _code_of(member)) is not None]
    else:
        found = _code_of(target)
        codes = [] if found is None else [found]
    if not codes:
        return ""
    for code in codes:
        _feed(digest, code)
    return digest.hexdigest()


def _code_of(target: object) -> CodeType | None:
    target = getattr(target, "__func__", target)
    for _ in range(_WRAPPERS_MAX):  # a cycle of wrappers would never end
        if not hasattr(target, "__wrapped__"):
            break
        target = target.__wrapped__
    else:
        return None
    code = getattr(target, "__code__", None)
    return code if isinstance(code, CodeType) else None


def _feed(digest: blake2b, code: CodeType) -> None:
    digest.update(code.co_code)
    for names in (code.co_names, code.co_varnames, code.co_freevars):
        digest.update("\0".join(names).encode("utf-8", "surrogatepass") + b"\1")
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _feed(digest, constant)
        elif isinstance(constant, frozenset):
            # The order of a frozenset follows the hashes of strings, which differ from process to process.
            digest.update("\0".join(sorted(map(repr, constant))).encode("utf-8", "backslashreplace"))
        else:
            digest.update(repr(constant).encode("utf-8", "backslashreplace") + b"\2")
