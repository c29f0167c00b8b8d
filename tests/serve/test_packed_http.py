"""Requests and answers as bytes."""

from __future__ import annotations

import pickle

import pytest

from sundog.serve.answers import StreamedAnswer, WholeAnswer, answer_of
from sundog.serve.packed_http import (
    answer_from,
    beside,
    pack_answer,
    pack_request,
    pack_stream,
    piece_beside,
    unpack_answer,
    unpack_request,
)

SCOPE = ("POST", "http", "/a b", b"/a%20b", b"q=1", "/a", ("127.0.0.1", 5), ("127.0.0.1", 8000))


def test_a_request_comes_out_as_it_went_in() -> None:
    headers = [(b"host", b"x"), (b"x-b", b"\xff")]
    meta, scope, body = unpack_request(*pack_request("id", "internal", "/a", "app", SCOPE, headers, b"body"))

    assert (meta.request_id, meta.internal_request_id, meta.route, meta.app_name) == (
        "id",
        "internal",
        "/a",
        "app",
    )
    assert meta.is_http_request and meta.call_method == "__call__"
    assert body == b"body"
    assert scope["headers"] == headers
    assert (scope["type"], scope["method"], scope["path"], scope["raw_path"]) == (
        "http",
        "POST",
        "/a b",
        b"/a%20b",
    )
    assert (scope["root_path"], scope["client"], scope["query_string"]) == (
        "/a",
        ("127.0.0.1", 5),
        b"q=1",
    )


@pytest.mark.parametrize("value", ["text", b"bytes", {"a": 1}, None])
def test_an_answer_comes_out_as_it_went_in(value: object) -> None:
    answer = answer_of(value)
    packed = pack_answer(answer, "GET")

    assert isinstance(packed, bytes)
    assert answer_from(packed) == answer


def test_headers_of_an_answer_are_written_as_the_client_gets_them() -> None:
    answer = WholeAnswer(201, [(b"X-A", b"b"), (b"Connection", b"close"), (b"content-length", b"2")], b"ok")
    packed = pack_answer(answer, "GET")

    assert isinstance(packed, bytes)
    status, head, body, closes = unpack_answer(packed)
    assert (status, body, closes) == (201, b"ok", True)
    assert head == b"x-a: b\r\nconnection: close\r\ncontent-length: 2\r\n"


def test_a_head_has_no_body_but_its_length() -> None:
    packed = pack_answer(answer_of("four"), "HEAD")

    assert isinstance(packed, bytes)
    _, head, body, _ = unpack_answer(packed)
    assert body == b"" and b"content-length: 4\r\n" in head


@pytest.mark.parametrize(
    "answer",
    [
        WholeAnswer(200, [], b"no length"),
        WholeAnswer(200, [(b"content-length", b"3")], b"four"),
        WholeAnswer(200, [(b"content-length", b"2"), (b"x", b"a\r\nb: c")], b"ok"),
        WholeAnswer(200, [(b"content-length", b"2"), (b"x y", b"a")], b"ok"),
        WholeAnswer(200, [(b"transfer-encoding", b"chunked")], b"ok"),
    ],
)
def test_what_does_not_fit_stays_a_row(answer: WholeAnswer) -> None:
    assert pack_answer(answer, "GET") is answer


def test_an_answer_without_content_needs_no_length() -> None:
    assert isinstance(pack_answer(WholeAnswer(204, [], b""), "GET"), bytes)


def test_a_long_body_travels_beside_its_request_and_its_answer() -> None:
    long = b"x" * 100_000
    packed, nothing, body = pack_request("id", "internal", "/a", "app", SCOPE, [], bytearray(long))

    assert len(packed) < 1000 and nothing is None
    assert unpack_request(packed, body)[2] == long
    buffers: list[pickle.PickleBuffer] = []
    stream = pickle.dumps(beside(answer_of(long)), 5, buffer_callback=buffers.append)
    assert len(stream) < 1000
    assert bytes(pickle.loads(stream, buffers=buffers).body) == long
    piece = {"type": "http.response.body", "body": b"short"}
    assert piece_beside(piece) is piece
    assert bytes(piece_beside({**piece, "body": long})["body"]) == long


def stream_of(*parts: bytes, headers: list[tuple[bytes, bytes]] | None = None) -> StreamedAnswer:
    start = {"type": "http.response.start", "status": 200, "headers": headers or [(b"A", b"b")]}
    bodies = [{"type": "http.response.body", "body": part, "more_body": True} for part in parts]
    return StreamedAnswer([start, *bodies, {"type": "http.response.body", "body": b""}], True)


def test_a_stream_that_has_ended_is_packed_with_its_pieces_as_chunks() -> None:
    packed = pack_stream(stream_of(b"one", b"", b"x" * 20), "GET")

    assert isinstance(packed, bytes)
    status, head, body, closes = unpack_answer(packed)
    assert (status, closes) == (200, False)
    assert head == b"a: b\r\ntransfer-encoding: chunked\r\n"
    assert body == b"3\r\none\r\n14\r\n" + b"x" * 20 + b"\r\n0\r\n\r\n"
    assert answer_from(packed) == WholeAnswer(200, [(b"a", b"b")], b"one" + b"x" * 20)


@pytest.mark.parametrize(
    ("stream", "method"),
    [
        (stream_of(b"one")._replace(is_done=False), "GET"),
        (stream_of(b"one"), "HEAD"),
        (stream_of(b"x" * 100_000), "GET"),
        (stream_of(b"one", headers=[(b"content-length", b"3")]), "GET"),
        (stream_of(b"one", headers=[(b"a", b"b\r\nc: d")]), "GET"),
    ],
)
def test_other_streams_travel_as_they_are(stream: StreamedAnswer, method: str) -> None:
    assert pack_stream(stream, method) is stream
