"""Messages between an app and a proxy: whole answers, streams, and an app that is faster than its client."""

from __future__ import annotations

import asyncio
from typing import Any

from sundog.serve.answers import StreamedAnswer, WholeAnswer
from sundog.serve.exchange import Exchange

SCOPE: dict[str, Any] = {"type": "http", "method": "GET", "path": "/"}
START = {"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]}


def body(data: bytes, more: bool) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": more}


def test_a_whole_answer_is_told_in_one() -> None:
    async def scene() -> None:
        exchange = Exchange(SCOPE, b"", False)
        await exchange.send(START)
        await exchange.send(body(b"all", False))
        assert await exchange.decided() == WholeAnswer(200, [(b"a", b"b")], b"all")

    asyncio.run(scene())


def test_an_app_waits_for_a_client_that_reads_slowly() -> None:
    async def scene() -> None:
        exchange = Exchange(SCOPE, b"", False)
        piece, count = b"x" * 1_000_000, 50
        sent = 0

        async def app() -> None:
            nonlocal sent
            await exchange.send(START)
            for index in range(count):
                await exchange.send(body(piece, index + 1 < count))
                sent += 1

        task = asyncio.ensure_future(app())
        task.add_done_callback(exchange.ended)
        first = await exchange.decided()
        assert isinstance(first, StreamedAnswer) and not first.is_done
        for _ in range(100):
            await asyncio.sleep(0)
        assert sent < 8  # some megabytes, however much there is to come
        got = sum(len(each.get("body", b"")) for each in first.messages)
        is_over = False
        while not is_over:
            messages, is_over = await exchange.next()
            assert sum(len(each["body"]) for each in messages) <= 2_000_000
            got += sum(len(each["body"]) for each in messages)
        assert got == count * len(piece)
        await task

    asyncio.run(scene())


def test_many_small_messages_travel_together_and_an_end_is_told_with_the_last() -> None:
    async def scene() -> None:
        exchange = Exchange(SCOPE, b"", False)
        await exchange.send(START)
        await exchange.send(body(b"0", True))
        first = await exchange.decided()
        assert isinstance(first, StreamedAnswer) and len(first.messages) == 2
        for index in range(1, 10):
            await exchange.send(body(b"%d" % index, index < 9))
        messages, is_over = await exchange.next()
        assert [each["body"] for each in messages] == [b"%d" % index for index in range(1, 10)]
        assert is_over

    asyncio.run(scene())


def test_pieces_that_are_ready_are_handed_over_together() -> None:
    async def scene() -> None:
        exchange = Exchange(SCOPE, b"", False)
        await exchange.send(START)
        for piece in (b"a", b"b", b"c"):
            await exchange.send(body(piece, True))
        await exchange.send(body(b"", False))
        whole = await exchange.decided()
        assert isinstance(whole, StreamedAnswer) and whole.is_done, "no second call is needed"
        assert [each.get("body") for each in whole.messages] == [None, b"a", b"b", b"c", b""]

    asyncio.run(scene())


def test_the_first_piece_does_not_wait_for_a_second() -> None:
    async def scene() -> None:
        exchange = Exchange(SCOPE, b"", False)
        await exchange.send(START)
        await exchange.send(body(b"a", True))
        first = await exchange.decided()
        assert isinstance(first, StreamedAnswer) and not first.is_done
        assert first.messages[-1]["body"] == b"a"

    asyncio.run(scene())
