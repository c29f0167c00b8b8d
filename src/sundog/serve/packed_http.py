"""Plain HTTP requests and their answers as bytes, as they travel between a proxy and a replica.

Owns the layout. A call whose argument and result are bytes is the cheapest that there is, and a head that the replica
has written is one that the proxy need not look at. What does not fit (an answer without a length, a stream) travels as
the row that it is. Runs in proxies and replicas.
"""

from __future__ import annotations

import marshal
import re
from typing import Any

from sundog.serve.answers import PLAIN_KINDS, Answer, Headers
from sundog.serve.rows import RequestMetadata

_BODY_MAX_BYTES = 64 * 1024  # a longer body is not copied once more to be packed
_BAD_NAME = re.compile(rb'[\x00-\x1f\x7f()<>@,;:\[\]={} \t\\"]')
_BAD_VALUE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_LENGTHLESS = (204, 304)
_KNOWN = {each: b": ".join(each) + b"\r\ncontent-length: %b\r\n" for each in PLAIN_KINDS}


def pack_request(
    request_id: str,
    internal_id: str,
    prefix: str,
    app_name: str,
    scope: tuple[Any, ...],
    headers: Headers,
    body: bytes,
) -> bytes:
    """One request; `scope` holds what `_SCOPE_NAMES` lists."""
    return marshal.dumps((request_id, internal_id, prefix, app_name, scope, headers, body))


_SCOPE_NAMES = (
    "method",
    "scheme",
    "path",
    "raw_path",
    "query_string",
    "root_path",
    "client",
    "server",
)


def scope_of(values: tuple[Any, ...], headers: Headers) -> dict[str, Any]:
    """The ASGI scope of a request."""
    method, scheme, path, raw_path, query_string, root_path, client, server = values
    return {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": scheme,
        "path": path,
        "raw_path": raw_path,
        "query_string": query_string,
        "root_path": root_path,
        "headers": headers,
        "client": client,
        "server": server,
    }


def metadata_of(request_id: str, internal_id: str, prefix: str, app_name: str) -> RequestMetadata:
    """What travels with a request that names no model and no session."""
    return RequestMetadata(request_id, internal_id, "__call__", prefix, app_name, "", "", False, True)


def unpack_request(data: bytes) -> tuple[RequestMetadata, dict[str, Any], bytes]:
    """The metadata, the ASGI scope and the body of a request."""
    request_id, internal_id, prefix, app_name, scope, headers, body = marshal.loads(data)
    return metadata_of(request_id, internal_id, prefix, app_name), scope_of(scope, headers), body


def pack_answer(answer: Answer, method: str) -> bytes | Answer:
    """An answer as bytes: status, head as it goes to the client, body. The answer itself if it does not fit."""
    status, headers, body = answer
    if len(body) > _BODY_MAX_BYTES:
        return answer
    if len(headers) == 2 and headers[1] == (b"content-length", length := b"%d" % len(body)):
        known = _KNOWN.get(headers[0])  # as `answer_of` makes them
        if known is not None and method != "HEAD":
            return marshal.dumps((status, known % length, body, False))
    told = None
    closes = False
    parts: list[bytes] = []
    for name, value in headers:
        if _BAD_NAME.search(name) or _BAD_VALUE.search(value):
            return answer  # the long way tells what is wrong
        name = name.lower()
        if name == b"content-length":
            told = value
        elif name == b"connection":
            closes = b"close" in value.lower()
        elif name == b"transfer-encoding":
            return answer
        parts += (name, b": ", value, b"\r\n")
    if method == "HEAD":
        body = b""
    elif told is None:
        if body or status not in _LENGTHLESS:
            return answer
    elif told != b"%d" % len(body):
        return answer
    return marshal.dumps((status, b"".join(parts), body, closes))


def unpack_answer(data: bytes) -> tuple[int, bytes, bytes, bool]:
    """The status, the head without the line of the status, the body, and whether the connection is to be closed."""
    found: tuple[int, bytes, bytes, bool] = marshal.loads(data)
    return found


def answer_from(data: bytes) -> Answer:
    """The same as a row."""
    status, head, body, _ = unpack_answer(data)
    lines = head.split(b"\r\n")[:-1]
    headers = [(name, value) for name, _, value in (line.partition(b": ") for line in lines)]
    return Answer(status, headers, body)
