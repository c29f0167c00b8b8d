"""What the controller publishes: a reader is told of news once, and of a new life at once."""

from __future__ import annotations

import asyncio

from sundog.serve.topics import Topics


def test_a_reader_gets_the_present_value_and_then_only_news() -> None:
    async def play() -> None:
        topics = Topics()
        topics.publish("routes", 1)
        version, value = await topics.listen("routes", None)
        assert value == 1
        waits = asyncio.ensure_future(topics.listen("routes", version))
        await asyncio.sleep(0)
        assert not waits.done()
        topics.publish("other", 5)
        topics.publish("routes", 2)
        newer, value = await waits
        assert value == 2 and newer != version

    asyncio.run(play())


def test_what_is_dropped_is_news_too() -> None:
    async def play() -> None:
        topics = Topics()
        topics.publish("d", "there")
        version, _ = await topics.listen("d", None)
        waits = asyncio.ensure_future(topics.listen("d", version))
        await asyncio.sleep(0)
        topics.drop("d")
        assert (await waits)[1] is None and topics.get("d") is None

    asyncio.run(play())


def test_a_version_of_another_life_is_never_the_present_one() -> None:
    async def play() -> None:
        before, after = Topics(), Topics()
        before.publish("d", "same")
        after.publish("d", "same")
        version, _ = await before.listen("d", None)
        again, value = await after.listen("d", version)
        assert value == "same" and again != version

    asyncio.run(play())


def test_a_reader_that_gives_up_leaves_no_waiter() -> None:
    async def play() -> None:
        topics = Topics()
        version, _ = await topics.listen("d", None)
        waits = asyncio.ensure_future(topics.listen("d", version))
        await asyncio.sleep(0)
        waits.cancel()
        await asyncio.gather(waits, return_exceptions=True)
        assert not any(topics._waiters.values())

    asyncio.run(play())
