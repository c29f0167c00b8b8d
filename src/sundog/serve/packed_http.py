"""Plain HTTP requests and their answers as bytes, as they travel between a proxy and a replica.

Owns the layout. A call whose argument and result are bytes is the cheapest call, and the proxy need not read a head
that the replica has written. Answers that do not fit this layout (without a length, or streamed) travel as rows. Runs
in proxies and replicas.
"""

from __future__ import annotations

import marshal
import re
from pickle import PickleBuffer
from typing import TYPE_CHECKING, TypeAlias

from sundog.serve.answers import PLAIN_KINDS, Headers, StreamedAnswer, WholeAnswer
from sundog.serve.rows import RequestMetadata
from sundog.serve.shared_bodies import BodyPlace, BodySlot

if TYPE_CHECKING:
    from starlette.types import Message, Scope

# With version 2.4 a streaming app need not listen for the client's disconnect: a disconnect cancels the app.
ASGI = {"version": "3.0", "spec_version": "2.4"}
# Of an ASGI scope: what `_SCOPE_NAMES` lists.
ScopeValues: TypeAlias = tuple[
    str, str | None, str, bytes, bytes, str, tuple[str, int] | None, tuple[str, int | None] | None
]
_BODY_MAX_BYTES = 64 * 1024  # a longer body is not copied again to be packed
_BAD_NAME = re.compile(rb'[\x00-\x1f\x7f()<>@,;:\[\]={} \t\\"]')
_BAD_VALUE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_CHUNKED = (b"transfer-encoding", b"chunked")
_LENGTHLESS = (204, 304)
_KNOWN = {each: b": ".join(each) + b"\r\ncontent-length: %b\r\n" for each in PLAIN_KINDS}


def pack_request(
    request_id: str,
    internal_id: str,
    prefix: str,
    app_name: str,
    scope: ScopeValues,
    headers: Headers,
    body: bytes | bytearray | BodySlot,
) -> tuple[bytes] | tuple[bytes, None, PickleBuffer]:
    """One request, as the arguments of the call; `scope` has what `_SCOPE_NAMES` lists. A long body goes beside it, or
    stays where it is in shared memory.
    """
    if isinstance(body, BodySlot):
        return (
            marshal.dumps((request_id, internal_id, prefix, app_name, scope, headers, tuple(body.place))),
        )
    if len(body) <= _BODY_MAX_BYTES:
        return (marshal.dumps((request_id, internal_id, prefix, app_name, scope, headers, bytes(body))),)
    head = marshal.dumps((request_id, internal_id, prefix, app_name, scope, headers, b""))
    return head, None, PickleBuffer(body)  # not copied into the pickle


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


def scope_of(values: ScopeValues, headers: Headers) -> Scope:
    """The ASGI scope of a request."""
    method, scheme, path, raw_path, query_string, root_path, client, server = values
    return {
        "type": "http",
        "asgi": ASGI,
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


def unpack_request(
    data: bytes, beside: bytes | memoryview | PickleBuffer = b""
) -> tuple[RequestMetadata, Scope, bytes | BodyPlace]:
    """The metadata, the ASGI scope and the body of a request, or where in shared memory that is."""
    request_id, internal_id, prefix, app_name, scope, headers, body = marshal.loads(data)
    body = BodyPlace(*body) if type(body) is tuple else body or bytes(beside)
    return metadata_of(request_id, internal_id, prefix, app_name), scope_of(scope, headers), body


def pack_answer(answer: WholeAnswer, method: str) -> bytes | WholeAnswer:
    """An answer as bytes: status, head as it goes to the client, body. The answer itself if it does not fit."""
    status, headers, body = answer
    if len(body) > _BODY_MAX_BYTES:
        return beside(answer)
    if len(headers) == 2 and headers[1] == (b"content-length", length := b"%d" % len(body)):
        known = _KNOWN.get(headers[0])  # in the form that `answer_of` makes
        if known is not None and method != "HEAD":
            return marshal.dumps((status, known % length, body, False))
    told = None
    closes = False
    parts: list[bytes] = []
    for name, value in headers:
        if _BAD_NAME.search(name) or _BAD_VALUE.search(value):
            return answer  # the long path reports the error
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


def beside(answer: WholeAnswer) -> WholeAnswer:
    """An answer whose long body is not copied into the pickle: the receiver finds a view in its place."""
    body = answer.body
    return answer._replace(body=PickleBuffer(body)) if len(body) > _BODY_MAX_BYTES else answer  # type: ignore[arg-type]


def piece_beside(message: Message) -> Message:
    """The same for a piece of a stream."""
    body = message.get("body")
    return {**message, "body": PickleBuffer(body)} if body and len(body) > _BODY_MAX_BYTES else message


def pack_stream(stream: StreamedAnswer, method: str) -> bytes | StreamedAnswer:
    """A stream that has ended before it was asked for, as bytes: each piece is a chunk of its own."""
    if not stream.is_done or stream.messages[0]["type"] != "http.response.start":
        return stream
    start, *pieces = stream.messages
    status: int = start["status"]
    headers = [(bytes(name), bytes(value)) for name, value in start.get("headers", ())]
    parts: list[bytes] = [bytes(each.get("body", b"")) for each in pieces]
    if sum(map(len, parts)) > _BODY_MAX_BYTES or status in _LENGTHLESS or method == "HEAD":
        return stream
    if any(name.lower() in (b"content-length", b"connection", b"transfer-encoding") for name, _ in headers):
        return stream
    if any(_BAD_NAME.search(name) or _BAD_VALUE.search(value) for name, value in headers):
        return stream
    head = b"".join([b"%b: %b\r\n" % (name.lower(), value) for name, value in headers])
    body = b"".join([b"%x\r\n%b\r\n" % (len(part), part) for part in parts if part])
    return marshal.dumps((status, head + b"%b: %b\r\n" % _CHUNKED, body + b"0\r\n\r\n", False))


def unpack_answer(data: bytes) -> tuple[int, bytes, bytes, bool]:
    """The status, the head without the line of the status, the body, and whether the connection is to be closed."""
    found: tuple[int, bytes, bytes, bool] = marshal.loads(data)
    return found


def answer_from(data: bytes) -> WholeAnswer:
    """The same as a row."""
    status, head, body, _ = unpack_answer(data)
    lines = head.split(b"\r\n")[:-1]
    headers = [(name, value) for name, _, value in (line.partition(b": ") for line in lines)]
    if headers and headers[-1] == _CHUNKED:
        return WholeAnswer(status, headers[:-1], _unchunked(body))
    return WholeAnswer(status, headers, body)


def _unchunked(data: bytes) -> bytes:
    parts: list[bytes] = []
    at = 0
    while True:
        end = data.index(b"\r\n", at)
        size = int(data[at:end], 16)
        if not size:
            return b"".join(parts)
        parts.append(data[end + 2 : end + 2 + size])
        at = end + 4 + size
