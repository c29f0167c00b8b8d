"""What a handler returned, as an HTTP response.

Owns the rules: text, bytes, JSON, a Starlette response, and the answer to errors. Runs in replicas and proxies.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from sundog.exceptions import RayTaskError
from sundog.plain import NamedTuple
from sundog.serve.exceptions import BackPressureError, DeploymentUnavailableError

if TYPE_CHECKING:
    from starlette.types import Message

Headers = list[tuple[bytes, bytes]]
_TEXT = (b"content-type", b"text/plain; charset=utf-8")
_BYTES = (b"content-type", b"text/plain")
_JSON = (b"content-type", b"application/json")
PLAIN_KINDS = (_TEXT, _BYTES, _JSON)


class WholeAnswer(NamedTuple):
    """A whole response."""

    status: int
    headers: Headers
    body: bytes


class StreamedAnswer(NamedTuple):
    """The beginning of a response whose rest the proxy asks for."""

    messages: list[Message]
    is_done: bool


def answer_of(value: object, status: int = 200, extra: Headers | None = None) -> WholeAnswer:
    """The response for what a handler returned, which is no response object."""
    if isinstance(value, str):
        kind, body = _TEXT, value.encode()
    elif value is None:
        kind, body = _BYTES, b""
    elif isinstance(value, (bytes, bytearray)):
        kind, body = _BYTES, bytes(value)
    else:
        kind, body = _JSON, _as_json(value)
    return WholeAnswer(status, [kind, (b"content-length", str(len(body)).encode()), *(extra or ())], body)


def _as_json(value: object) -> bytes:
    try:
        return json.dumps(value, separators=(",", ":")).encode()
    except TypeError:
        return json.dumps(_plain(value), separators=(",", ":")).encode()


def _plain(value: object) -> object:
    """Models, dataclasses, arrays and the like, as JSON knows them."""
    import numbers

    from pydantic_core import to_jsonable_python

    def fallback(each: object) -> object:
        if hasattr(each, "tolist"):  # numpy arrays and scalars, and tensors
            return each.tolist()
        if hasattr(each, "to_dict"):
            return each.to_dict()
        if isinstance(each, numbers.Number):
            return float(each)  # type: ignore[arg-type]
        if hasattr(each, "__dict__"):
            return dict(vars(each))
        raise TypeError(f"Object of type {type(each).__name__} is not JSON serializable")

    return to_jsonable_python(value, fallback=fallback)


def answer_to_error(error: BaseException, request_id: str, timeout_s: float | None = None) -> WholeAnswer:
    """The response that tells of an error."""
    cause = getattr(error, "cause", None)
    if isinstance(error, RayTaskError) and isinstance(cause, (BackPressureError, DeploymentUnavailableError)):
        error = cause
    if isinstance(error, BackPressureError):
        return answer_of(error.message, error.status_code, retry_after(error.retry_after_s))
    if isinstance(error, DeploymentUnavailableError):
        return answer_of(error.message, 503)
    if isinstance(error, TimeoutError) and not isinstance(error, RayTaskError):
        after = f" after {timeout_s}s" if timeout_s is not None else ""
        return answer_of(f"Request {request_id} timed out{after}.", 408)
    if isinstance(error, RayTaskError):
        return answer_of("Internal Server Error", 500)
    return answer_of(f"Internal Server Error: {error}", 500)


def retry_after(seconds: float | None) -> Headers:
    """The header that tells when to try again."""
    return [] if seconds is None else [(b"retry-after", str(max(0, math.ceil(seconds))).encode())]
